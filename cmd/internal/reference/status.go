// The page of exit statuses, from the table of the command lines.

package reference

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
)

func writeStatuses(w *writer, _ *module, p Programs) error {
	w.line("A command without a row of its own has those of all commands.")
	w.table("Commands", "Status", "Meaning")
	for _, s := range cli.Statuses {
		for _, path := range s.Commands {
			if _, err := p.find(path); err != nil {
				return fmt.Errorf("status %s: %w", s.Status, err)
			}
		}
		commands := codes(s.Commands)
		if commands == "" {
			commands = "all"
		}
		w.row(commands, s.Status, s.Meaning)
	}
	return nil
}
