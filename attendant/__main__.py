"""``python -m attendant``: the command of that name, in any working directory."""

import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
if __name__ == "__main__":
    # Python looks for packages in the working directory first, which may hold some named `models` or `export`.
    if not sys.flags.safe_path:
        sys.path.pop(0)
    sys.path.insert(0, str(HERE))
    from commands.attendant import main

    main()
