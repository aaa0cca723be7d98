// The root command: its flags, and the list of commands.

package main

import (
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/protocols"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/spf13/cobra"
)

// connectTimeout is how long a server may take to be connected to, where no flag says otherwise.
const connectTimeout = 10 * time.Second

func newRoot(s *session.Session) *cobra.Command {
	root := &cobra.Command{
		Use:   "nfsrdma",
		Short: "Mount and use NFS servers over RDMA or TCP, with no RDMA hardware and no NFS of the kernel's",
		Long: `nfsrdma uses NFSv3 servers over RPC-over-RDMA (software iWARP) or TCP, with no RDMA
hardware and no NFS client of the kernel's: mounted on a directory, or by the file
commands below, which need no mount.

A remote path is written nfsrdma://HOST[:PORT]/export/path or HOST:/export/path;
nfs://HOST[:PORT]/export/path means TCP. The default ports are 20049 for RDMA and
2049 for TCP. An IPv6 address is written in brackets. Several servers of one volume
are HOST[:PORT],HOST[:PORT] in place of HOST: one that answers is used, and when it
does not any more the next one, if it serves the same by the same handles.

A server that cannot be reached at first is an error after --connect-timeout. One
that falls silent later is waited for, as with a hard mount: a terminal is told
"not responding, still trying", and Ctrl-C or --timeout ends the wait. What is wrong
between this machine and a server, "nfsrdma doctor SERVER" finds out.`,
		Annotations: map[string]string{cli.Protocols: protocols.List()},
		Example: `  nfsrdma demo
  nfsrdma mount server:/export /mnt
  nfsrdma ls -l nfsrdma://server/export
  nfsrdma cp -r server:/export/src ./src
  nfsrdma bench nfsrdma://server/export`,
	}
	f := root.PersistentFlags()
	f.StringVar(&s.Flags.Transport, "transport", "", "rdma or tcp (default rdma, tcp for nfs:// paths)")
	f.StringVar(&s.Flags.Provider, "provider", "iwarp", "RDMA by iwarp (over TCP), roce (RoCEv2: Linux rxe, RoCE adapters, nfsrdmad), or auto: iwarp and, where that is not answered, roce")
	f.IntVar(&s.Flags.MountPort, "mount-port", 0, "TCP port of the server's MOUNT service (default: the NFS port, then rpcbind)")
	f.IntVar(&s.Flags.Conns, "conns", 1, "connections to each server")
	f.StringVar(&s.Flags.CRC, "crc", "on", "MPA CRC over RDMA: on, auto, off or strict (on, and no byte is placed before its CRC is right)")
	f.DurationVar(&s.Flags.ConnectTimeout, "connect-timeout", connectTimeout, "longest wait for a connection and mount")
	f.DurationVar(&s.Flags.Timeout, "timeout", 0, "longest wait for an answer of a server that has gone silent; 0: as long as it takes")
	for _, name := range []string{"transport", "provider", "crc"} {
		words := map[string][]string{"transport": {"rdma", "tcp"}, "provider": {"iwarp", "roce", "auto"}, "crc": {"on", "auto", "off", "strict"}}[name]
		_ = root.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	root.AddCommand(
		newMount(s), newUmount(), newMountstats(), newLs(s), newCat(s), newCp(s), newStat(s), newMkdir(s), newRm(s), newMv(s), newLn(s),
		newDf(s), newShowmount(s), newPing(s), newDoctor(s), newTop(), newBench(s), newDemo(s), newRnicBench(s), newVerbs(s), newRawTCP(), newRnicPeer(), newRawUDP(), newMountPeer(s), newServe(),
	)
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "cp", "mv":
			cmd.ValidArgsFunction = completePaths(s, true)
		case "ls", "cat", "stat", "mkdir", "rm", "ln", "df", "bench":
			cmd.ValidArgsFunction = completePaths(s, false)
		}
	}
	cli.Prepare(root, newHelper(s))
	return root
}
