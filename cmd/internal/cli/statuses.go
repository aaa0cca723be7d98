// The exit statuses as documents list them.

package cli

// A CommandStatus is the meaning of an exit status.
type CommandStatus struct {
	Commands []string // empty: all commands
	Status   string
	Meaning  string
}

// Statuses lists the exit statuses of the programs.
var Statuses = []CommandStatus{
	{nil, "0", "success; of a server, it was stopped by SIGTERM or SIGINT"},
	{nil, "1", "an error, which is on standard error in one line; of several files, at least one failed"},
	{nil, "128 + N", "ended by signal N: 130 after Ctrl-C, 141 if the reader of the output has left"},
	{[]string{"nfsrdma ls"}, "1", "something below an operand could not be listed"},
	{[]string{"nfsrdma ls"}, "2", "an operand could not be listed"},
	{[]string{"nfsrdma doctor"}, "1", "a check failed"},
	{[]string{"nfsrdma demo"}, "1", "a step failed, or a byte of a copy differs"},
	{[]string{"nfsrdma mount", "nfsrdma umount"}, "1", "the command line or an option is wrong"},
	{[]string{"nfsrdma mount", "nfsrdma umount"}, "32", "mounting or unmounting failed"},
	{[]string{"nfsrdma umount"}, "64", "unmounted, while another mount of the same process stays"},
	{[]string{"nfsrdmad check"}, "1", "the exports file has an error, or the client that is named is refused"},
	{[]string{"nfsrdmad drain"}, "1", "clients were left after `--timeout`"},
}
