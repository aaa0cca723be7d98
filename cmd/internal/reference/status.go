// The pages of exit statuses, files and variables, from the command lines' tables.

package reference

import (
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
)

func writeStatuses(w *writer, _ *module, p Programs) error {
	w.line("A command without a row of its own has those of all commands.")
	return writeFacts(w, p, "Status", cli.Statuses)
}

func writeFiles(w *writer, _ *module, p Programs) error {
	w.line("## Files\n\nFiles that are used without being named by a flag.")
	if err := writeFacts(w, p, "File", cli.Files); err != nil {
		return err
	}
	w.line("\n## Environment")
	return writeFacts(w, p, "Variable", cli.Environment)
}

// elsewhere lists manual pages that are not commands of the programs.
var elsewhere = []string{"nfsrdma-exports"}

func writeFacts(w *writer, p Programs, column string, facts []cli.Fact) error {
	w.table(column, "Commands", "Meaning")
	for _, f := range facts {
		for _, path := range f.Commands {
			if _, err := p.find(path); err != nil && !slices.Contains(elsewhere, path) {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
		commands := codes(f.Commands)
		if commands == "" {
			commands = "all"
		}
		w.row(code(f.Name), commands, prose(f.Meaning))
	}
	return nil
}
