"""The mechanics of bodies, joints, springs and wheels as one pytree. It knows placements and twists, no coordinates."""
