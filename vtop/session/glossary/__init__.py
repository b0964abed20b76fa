"""What each number on the screen is: name, unit, source series, formula and caveat, a file a panel."""
