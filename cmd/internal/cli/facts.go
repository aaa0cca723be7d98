// Exit statuses, files and environment variables, for manual pages and documents.

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// A Fact is one status, file or variable of some commands.
type Fact struct {
	Commands []string // each with all commands below it; empty: all commands
	Name     string
	Meaning  string
}

// of reports whether a fact applies to a command.
func (f *Fact) of(command string) bool {
	for _, c := range f.Commands {
		if command == c || strings.HasPrefix(command, c+" ") {
			return true
		}
	}
	return len(f.Commands) == 0
}

// servers returns the paths of commands of nfsrdmad and nfsrdmad-juicefs; "" is the program itself.
func servers(commands ...string) (paths []string) {
	for _, program := range []string{"nfsrdmad", "nfsrdmad-juicefs"} {
		for _, c := range commands {
			paths = append(paths, strings.TrimSuffix(program+" "+c, " "))
		}
	}
	return paths
}

// Statuses lists the exit statuses of the programs.
var Statuses = []Fact{
	{nil, "0", "success"},
	{servers("serve"), "0", "the server was stopped by SIGTERM or SIGINT"},
	{nil, "1", "an error, which is on standard error in one line; of several files, at least one failed"},
	{[]string{"nfsrdma ls"}, "1", "something below an operand could not be listed"},
	{[]string{"nfsrdma ls"}, "2", "an operand could not be listed"},
	{[]string{"nfsrdma doctor"}, "1", "a check failed"},
	{[]string{"nfsrdma demo"}, "1", "a step failed, or a byte of a copy differs"},
	{[]string{"nfsrdma mount", "nfsrdma umount", "mount.nfsrdma"}, "1", "the command line or an option is wrong"},
	{[]string{"nfsrdma mount", "mount.nfsrdma"}, "32", "mounting failed"},
	{[]string{"nfsrdma umount"}, "32", "unmounting failed"},
	{[]string{"nfsrdma umount"}, "64", "unmounted, while another mount of the same process stays"},
	{servers("check"), "1", "the exports file has an error, or the client that is named is refused"},
	{servers("drain"), "1", "clients were left after --timeout"},
	{nil, "128+N", "ended by signal N: 130 after Ctrl-C, 141 if the reader of the output has left"},
}

// Files lists the files that the programs use by default.
var Files = []Fact{
	{[]string{"nfsrdmad serve", "nfsrdmad check", "nfsrdma-exports"}, "/etc/nfsrdma/exports", "the exports file, if no other file and no directory is named"},
	{[]string{"nfsrdmad"}, "/run/nfsrdma/control", "the control socket of a server that root runs"},
	{[]string{"nfsrdmad"}, "$XDG_RUNTIME_DIR/nfsrdma/control", "the control socket of a server that another user runs"},
	{[]string{"nfsrdmad serve"}, "/var/lib/nfsrdma", "the file-handle key and the clients with locks, of a server that root runs"},
	{[]string{"nfsrdmad serve"}, "~/.local/state/nfsrdma", "the same, of a server that another user runs"},
	{[]string{"nfsrdmad serve"}, "/etc/default/nfsrdmad", "flags of the packaged unit nfsrdmad.service"},
	{[]string{"nfsrdmad-juicefs check"}, "/etc/nfsrdma/juicefs-exports", "the exports file, if no other file is named"},
	{[]string{"nfsrdmad-juicefs"}, "/run/nfsrdma-juicefs/control", "the control socket of a server that root runs"},
	{[]string{"nfsrdmad-juicefs"}, "$XDG_RUNTIME_DIR/nfsrdma-juicefs/control", "the control socket of a server that another user runs"},
	{[]string{"nfsrdmad-juicefs serve"}, "/var/lib/nfsrdma-juicefs", "the sessions in the volumes and the clients with locks, of a server that root runs"},
	{[]string{"nfsrdmad-juicefs serve"}, "~/.local/state/nfsrdma-juicefs", "the same, of a server that another user runs"},
	{[]string{"nfsrdmad-juicefs serve"}, "/etc/default/nfsrdmad-juicefs", "volumes and flags of the packaged unit nfsrdmad-juicefs.service"},
	{[]string{"nfsrdma mount", "nfsrdma umount", "nfsrdma mountstats", "mount.nfsrdma"}, "/run/nfsrdma", "the sockets of mounts that root has made"},
	{[]string{"nfsrdma mount", "nfsrdma umount", "nfsrdma mountstats"}, "/run/user/UID/nfsrdma", "the sockets of mounts of another user, or else /tmp/nfsrdma-UID"},
	{[]string{"mount.nfsrdma"}, "/etc/fstab", "mounts of type nfsrdma"},
}

// Environment lists the variables that the programs read.
var Environment = []Fact{
	{servers(""), "XDG_RUNTIME_DIR", "the folder of the control socket, if the user is not root"},
	{servers("serve"), "XDG_STATE_HOME", "the folder of the state directory, if --state-dir is not given"},
	{servers("serve"), "LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES", "sockets from systemd to serve on"},
	{servers("serve"), "NOTIFY_SOCKET, WATCHDOG_USEC", "the socket and the interval by which systemd learns that the server runs"},
	{[]string{"nfsrdmad-juicefs serve", "nfsrdmad-juicefs format"}, "META_PASSWORD", "the password of the metadata service"},
	{[]string{"nfsrdmad-juicefs serve", "nfsrdmad-juicefs format"}, "META_PASSWORD_FILE", "a file with the password of Redis"},
	{[]string{"nfsrdmad-juicefs serve"}, "JFS_RSA_PASSPHRASE", "the passphrase of the key of an encrypted volume"},
	{[]string{"nfsrdmad-juicefs format"}, "ACCESS_KEY, SECRET_KEY, SESSION_TOKEN", "the keys of the object storage"},
	{[]string{"nfsrdma top"}, "NO_COLOR", "if it is set, no colors are used"},
	{[]string{"nfsrdma top"}, "TERM", "if it is dumb, lines are printed in place of a screen"},
	{[]string{"nfsrdma demo", "nfsrdma bench"}, "NFSRDMA_SCRATCH", "the folder of temporary files, in place of /dev/shm"},
	{append(servers(""), "nfsrdma"), "GOMAXPROCS", "processors to use at the same time; by default all that the process may use"},
}

// facts returns the sections with facts for a manual page. A file's page has no exit status.
func facts(cmd *cobra.Command) string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		list  []Fact
	}{{"EXIT STATUS", Statuses}, {"FILES", Files}, {"ENVIRONMENT", Environment}} {
		if part.title == "EXIT STATUS" && !cmd.Runnable() {
			continue
		}
		names, meanings := collect(part.list, cmd.CommandPath())
		writeFacts(&b, part.title, "", names, meanings)
	}
	about := ""
	for _, d := range diagnostics {
		if d.of(cmd.CommandPath()) && cmd.Runnable() {
			about = d.Meaning
		}
	}
	names, meanings := collect(messages, cmd.CommandPath())
	writeFacts(&b, "DIAGNOSTICS", about, names, meanings)
	return b.String()
}

// writeFacts writes a section: an introduction and facts. Without either it writes nothing.
func writeFacts(b *strings.Builder, title, about string, names []string, meanings map[string]string) {
	if about == "" && len(names) == 0 {
		return
	}
	fmt.Fprintf(b, "\n\n# %s\n\n%s\n", title, plainText(about))
	for _, name := range names {
		fmt.Fprintf(b, "\n%s\n: %s\n", plainText(name), plainText(meanings[name]))
	}
}

// diagnostics lists the introductions to the sections on errors, by program.
var diagnostics = []Fact{
	{[]string{"nfsrdma", "mount.nfsrdma"}, "", `Errors are on standard error, each in one line: what failed, the reason, and what to do. "nfsrdma doctor SERVER" tests
the path to a server, and prints a remedy for each failure.`},
	{[]string{"nfsrdmad"}, "", `Errors are on standard error, each in one line: what failed, the reason, and what to do. "nfsrdmad check" finds mistakes in
an exports file. The server logs to standard error: see --log-level and --log-format of nfsrdmad serve.`},
	{[]string{"nfsrdmad-juicefs"}, "", `Errors are on standard error, each in one line: what failed, the reason, and what to do. "nfsrdmad-juicefs check" finds
mistakes in an exports file. The server logs to standard error: see --log-level and --log-format of nfsrdmad-juicefs serve.`},
}

// collect returns a command's facts by name. Several meanings of a name are joined.
func collect(list []Fact, command string) (names []string, meanings map[string]string) {
	meanings = map[string]string{}
	for _, f := range list {
		if !f.of(command) {
			continue
		}
		if before := meanings[f.Name]; before != "" {
			meanings[f.Name] = before + "; " + f.Meaning
			continue
		}
		names = append(names, f.Name)
		meanings[f.Name] = f.Meaning
	}
	return names, meanings
}
