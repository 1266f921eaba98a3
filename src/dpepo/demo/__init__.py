"""The demo: the whole method on real ScienceWorld tasks, on a laptop. `dpepo.demo.pipeline` is the way in."""
