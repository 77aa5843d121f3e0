"""What an engine is built from and held to: profiles, timings, progress, and the fusion of attention."""
