"""What a recording means so far: the only place where a shown number is computed."""
