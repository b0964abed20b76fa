"""The engine's coefficients from recordings: the fit, the profile it makes, and a recording's own host factors."""
