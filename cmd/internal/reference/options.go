// The pages of mount and export options, from the tables that parse them.

package reference

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

func writeMountOptions(w *writer, _ *module, _ Programs) error {
	w.line("Options are separated by commas: `-o nconnect=4,soft,timeo=50`. How they work together: [mount with FUSE](../mount.md).")
	for _, part := range []struct {
		kind   mountopt.Treatment
		title  string
		column string
	}{
		{mountopt.Works, "Options with an effect", "Meaning"},
		{mountopt.Same, "Other names, and options that restore a default", "Meaning"},
		{mountopt.Ignored, "Accepted without effect", "Reason"},
		{mountopt.Refused, "Refused", "Reason"},
	} {
		w.line("\n## %s", part.title)
		w.table("Option", part.column)
		for _, r := range mountopt.Rows() {
			if r.Treatment == part.kind {
				w.row(codes(r.Usage), prose(strings.TrimPrefix(r.Help, "accepted: ")))
			}
		}
	}
	return nil
}

// described matches an entry in the help of the exports file: option names and their meaning, which
// continues in lines with a larger indent.
var described = regexp.MustCompile(`(?m)^  (\S+(?:, \S+)*)  +(\S.*(?:\n {6,}\S.*)*)`)

func writeExportOptions(w *writer, _ *module, p Programs) error {
	help, err := p.find("nfsrdmad exports-file")
	if err != nil {
		return err
	}
	w.line("An option is written in parentheses after a client: `/srv/data 10.0.0.0/24(rw,async)`. The grammar is in [commands](commands.md#nfsrdmad-exports-file).")
	undescribed, noEffect, refused := map[string]bool{}, map[string]bool{}, map[string][]string{}
	for _, o := range exports.Words() {
		noEffect[o.Name] = o.NoEffect
		if undescribed[o.Name] = o.Refused == ""; o.Refused != "" {
			refused[o.Refused] = append(refused[o.Refused], o.Name)
		}
	}
	// the options follow the forms of a client
	_, list, _ := strings.Cut(help.Long, "Options of a client, with")
	works, without, _ := strings.Cut(list, "that are accepted without effect:")
	for _, part := range []struct{ title, column, list string }{
		{"Options with an effect\n\nThe first option of a row is the default.", "Meaning", works},
		{"Accepted without effect", "Reason", without},
	} {
		w.line("\n## %s", part.title)
		w.table("Options", part.column)
		for _, m := range described.FindAllStringSubmatch(part.list, -1) {
			names := strings.Split(m[1], ", ")
			for _, name := range names {
				name, _, _ := strings.Cut(name, "=")
				switch {
				case !undescribed[name]:
					return fmt.Errorf("the help of the exports file describes %q, which is no option or is described twice", name)
				case noEffect[name] != (part.list == without):
					return fmt.Errorf("the help of the exports file has %s in the wrong list: does it have an effect?", name)
				}
				undescribed[name] = false
			}
			w.row(codes(names), prose(m[2]))
		}
	}
	for name, missing := range undescribed {
		if missing {
			return fmt.Errorf("the help of the exports file does not describe the option %s", name)
		}
	}
	w.line("\n## Refused")
	w.table("Options", "Reason")
	for _, reason := range slices.Sorted(maps.Keys(refused)) {
		w.row(codes(refused[reason]), prose(reason))
	}
	return nil
}
