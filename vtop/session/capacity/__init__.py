"""The search for the largest rate that keeps a service level: its rules, its runs on record, what is known so far."""
