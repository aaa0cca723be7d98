// Messages that users search for, and other manual pages to read.

package cli

// clients lists the commands that use a server.
var clients = []string{"nfsrdma", "mount.nfsrdma"}

// messages lists parts of messages, each with its cause and the remedy.
var messages = []Fact{
	{clients, "not responding, still trying", "the server stopped answering; the command waits, and continues when the server answers again"},
	{clients, "connection refused", "nothing listens at this address and port: start the server with --addr, or run nfsrdma doctor SERVER"},
	{clients, "Permission denied", "the export is read-only, or the server maps your user to nobody: run nfsrdma doctor SERVER:/export"},
	{clients, "Stale file handle", "the file was removed, or is no longer exported; if all files are stale, mount again"},
	{servers("serve"), "is in use", "another program has the port: find it with ss -lntup, or choose --rdma-port and --tcp-port"},
	{append(servers("serve", "check", "reload"), "nfsrdma-exports"), "FILE:LINE:COLUMN", "the place of a mistake in the exports file; the server keeps its present exports"},
	{servers("status", "clients", "locks", "exports", "reload", "drain"), "no server answers",
		"no server runs, or it has another socket: name it with --control"},
}

// seeAlso lists the manual pages of other programs and of files, each with the commands whose pages
// name it.
var seeAlso = []Fact{
	{[]string{"nfsrdma mount", "nfsrdma umount", "mount.nfsrdma"}, "mount(8)", ""},
	{[]string{"nfsrdma mount", "mount.nfsrdma"}, "nfs(5)", ""},
	{[]string{"mount.nfsrdma"}, "nfsrdma-mount(1)", ""},
	{[]string{"nfsrdma"}, "nfsrdmad(8)", ""},
	{servers(""), "nfsrdma(1)", ""},
	{servers("serve", "check", "reload", "exports"), "nfsrdma-exports(5)", ""},
	{[]string{"nfsrdmad-juicefs"}, "nfsrdmad(8)", ""},
	{[]string{"nfsrdma-exports"}, "exports(5)", ""},
	{[]string{"nfsrdma-exports"}, "nfsrdmad(8)", ""},
}
