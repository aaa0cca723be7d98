// Programs that serve things other than directories, with the same commands.

package program

import (
	"fmt"
	"path"
	"regexp"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/control"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Kind describes a program that serves volumes instead of directories. Its file systems check
// callers' rights themselves, so the server needs no privileges to act as callers.
type Kind struct {
	// Program and Serve are the help texts of the program and of its command serve.
	Program, Serve Help
	// Exports is the default exports file of check.
	Exports string
	// Dir is the name of the default directories for the control socket and the state. It differs
	// from other servers' on the same machine.
	Dir string
	// Flags adds flags to serve.
	Flags func(*pflag.FlagSet)
	// Commands are the program's commands in addition to nfsrdmad's.
	Commands []*cobra.Command
	// Volume returns the volume for an argument of serve.
	Volume func(arg string, s Settings) (Volume, error)
}

// A Help has a command's names and help texts.
type Help struct{ Use, Short, Long, Example string }

// Settings are flags for serve that a Kind also uses.
type Settings struct {
	ReadOnly bool
	StateDir string // directory for state between runs; "": none
	Locks    bool   // locks are served
}

// A Volume is a file system to export.
type Volume struct {
	Label string // name for messages, without secrets
	Name  string // the export's name: a clean absolute path
	Open  func() (nfsserver.FS, error)
}

// ParseSize parses bytes with an optional K, M or G.
func ParseSize(s string) (int64, error) { return cli.ParseSize(s) }

// name returns the program's name.
func (k *Kind) name() string {
	if k == nil {
		return "nfsrdmad"
	}
	return k.Program.Use
}

// exportsFile returns the default exports file.
func (k *Kind) exportsFile() string {
	if k == nil {
		return defaultExports
	}
	return k.Exports
}

// dir returns the name for the program's directories.
func (k *Kind) dir() string {
	if k == nil {
		return control.Dir
	}
	return k.Dir
}

var itself = regexp.MustCompile(`\bnfsrdmad\b`)

// describe replaces nfsrdmad in all help texts by the program's name.
func (k *Kind) describe(root *cobra.Command) {
	name := k.Program.Use
	var rename func(*cobra.Command)
	rename = func(c *cobra.Command) {
		c.Short, c.Long, c.Example = itself.ReplaceAllString(c.Short, name), itself.ReplaceAllString(c.Long, name), itself.ReplaceAllString(c.Example, name)
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = itself.ReplaceAllString(f.Usage, name) })
		for _, sub := range c.Commands() {
			rename(sub)
		}
	}
	rename(root)
	k.Program.put(root)
	for _, c := range root.Commands() {
		if c.Name() == "serve" {
			k.Serve.put(c)
		}
	}
}

func (h *Help) put(c *cobra.Command) {
	c.Use, c.Short, c.Long, c.Example = h.Use, h.Short, h.Long, h.Example
}

// volumes returns the volumes in serve's arguments, with their rules from the exports file.
func (k *Kind) volumes(o *options, args []string) (list []source, err error) {
	s := Settings{ReadOnly: o.readOnly, Locks: o.locks.on}
	if !o.ephemeral {
		s.StateDir = stateDir(o)
	}
	for _, arg := range args {
		v, err := k.Volume(arg, s)
		if err != nil {
			return nil, err
		}
		list = append(list, source{at: v.Label, name: path.Clean(v.Name), open: v.Open})
	}
	return list, nil
}

// rulesOf returns a file's rules for the command line's exports. The file must have exactly these
// exports, because an omitted one would be open to all clients.
func rulesOf(file string, f *exports.File, names []string) (map[string]*exports.Export, error) {
	rules := map[string]*exports.Export{}
	for _, x := range f.Exports {
		rules[x.Path] = x
		if x.Whole.SubtreeCheck {
			return nil, fmt.Errorf("%s: %s: subtree_check is for directories, not for volumes", file, x.Path)
		}
	}
	for _, name := range names {
		if rules[name] == nil {
			return nil, fmt.Errorf("%s does not name %s, so nobody could use it: give it a line", file, name)
		}
	}
	if len(rules) > len(names) {
		for _, x := range f.Exports {
			known := false
			for _, name := range names {
				known = known || name == x.Path
			}
			if !known {
				return nil, fmt.Errorf("%s: no volume of the command line is exported as %s", file, x.Path)
			}
		}
	}
	return rules, nil
}

// applyRules adds the rules in the file to the command line's exports.
func (s *exportSet) applyRules(list []nfsserver.Export) error {
	f, memory, err := s.read()
	if err != nil {
		return err
	}
	s.memory.Store(memory)
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	rules, err := rulesOf(s.file, f, names)
	if err != nil {
		return err
	}
	s.whole = map[string]exports.Whole{}
	for i := range list {
		list[i].Rules = rules[list[i].Name]
		s.whole[list[i].Name] = list[i].Rules.Whole
	}
	return nil
}
