// The options as text: for help, for the manual pages, and for who mistypes one.

package mountopt

import (
	"fmt"
	"strings"
)

// Names lists the options that have a meaning here, in the order of the help text.
func Names() (names []string) {
	for _, x := range options {
		if x.help != "" {
			names = append(names, x.name)
		}
	}
	return names
}

// Completions lists what the shell offers after -o, each with its help after a tab.
func Completions() (list []string) {
	for _, x := range options {
		if x.help == "" {
			continue
		}
		name := x.name
		if x.arg != "" {
			name += "="
		}
		list = append(list, name+"\t"+x.help)
	}
	return list
}

// others are the options that Names leaves out: what they say is the default, or for others than this program.
var others = []struct{ names, help string }{
	{"intr nointr", "accepted: signals end each wait in any case"},
	{"nfsvers=3 v3 mountvers=3", "the same as vers=3"},
	{"sharecache nosharecache", "accepted: each mount has caches of its own"},
	{"rw suid dev exec", "as if ro, nosuid, nodev, noexec had not been given"},
	{"defaults", "all four"},
	{"atime relatime norelatime strictatime diratime nodiratime", "as noatime: times of access are the server's"},
	{"user[=NAME] users", "nosuid, nodev and noexec, unless what follows gives them back"},
	{"owner group", "nosuid and nodev, likewise"},
	{"nouser nousers noowner nogroup auto noauto nofail _netdev silent loud comment=TEXT x-… X-…", "accepted: for mount(8), systemd and whoever else reads fstab(5)"},
	{"remount", "refused: unmount, and mount again"},
}

// helpWidth is how wide a line of several names gets.
const helpWidth = 90

// Help describes all options, one a line; they are indented so that manual pages keep the lines.
func Help() string {
	var b strings.Builder
	for _, x := range options {
		if x.help == "" {
			continue
		}
		name := x.name
		if x.arg != "" {
			name += "=" + x.arg
		}
		fmt.Fprintf(&b, "    %-21s %s\n", name, x.help)
	}
	for _, x := range others {
		line := ""
		for name := range strings.FieldsSeq(x.names) {
			if len(line)+len(name) > helpWidth {
				fmt.Fprintf(&b, "    %s\n", line)
				line = ""
			}
			line = strings.TrimSpace(line + " " + name)
		}
		if len(line) > 21 {
			fmt.Fprintf(&b, "    %s\n", line)
			line = ""
		}
		fmt.Fprintf(&b, "    %-21s %s\n", line, x.help)
	}
	return b.String()
}

// similar is the option that a mistyped name is one step away from, or "".
func similar(name string) string {
	for _, x := range options {
		if x.help != "" && len(name) > 2 && oneStep(name, x.name) {
			return x.name
		}
	}
	return ""
}

// oneStep reports whether a is b with one byte more, less or other, or two neighbours exchanged.
func oneStep(a, b string) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	ra, rb := a[i:], b[i:]
	switch {
	case len(ra) == len(rb)+1:
		return ra[1:] == rb
	case len(rb) == len(ra)+1:
		return rb[1:] == ra
	case len(ra) == len(rb) && len(ra) > 0:
		return ra[1:] == rb[1:] || len(ra) > 1 && ra[0] == rb[1] && ra[1] == rb[0] && ra[2:] == rb[2:]
	}
	return false
}
