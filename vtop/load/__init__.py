"""The load generator: requests are sent by a schedule, and of each it is known when every token came."""
