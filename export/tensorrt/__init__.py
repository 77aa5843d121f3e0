"""What an engine is built from and checked against: profiles, timings, progress, and the fusion of attention."""
