"""What a report states: findings, facts, validity, counters against each other, and what to try next."""
