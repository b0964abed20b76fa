"""What happens in the world, as events: servers, GPUs."""
