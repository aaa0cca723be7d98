// mount.nfsrdma: the program as called by mount(8), for mount -t nfsrdma and for fstab.

package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/cmd/internal/protocols"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/spf13/cobra"
)

// helperName is the program's name when mount(8) calls it.
const helperName = "mount.nfsrdma"

const helperLong = `mount.nfsrdma is a symbolic link to nfsrdma in /sbin. mount(8) calls it for file
systems of type nfsrdma, on its command line and in fstab(5). If the server cannot
be reached, mounting is tried for two minutes (retry=). With bg it is tried for a
week in the background.

`

const helperExample = `  mount -t nfsrdma -o proto=auto server:/export /mnt

  # lines of /etc/fstab
  server:/export  /mnt   nfsrdma  _netdev,nofail                      0 0
  server:/home    /home  nfsrdma  noauto,x-systemd.automount,_netdev  0 0`

// newHelper returns the root command of mount.nfsrdma.
func newHelper(s *session.Session) *cobra.Command {
	m := &mountCommand{helper: true}
	var noMtab bool
	var namespace string
	cmd := &cobra.Command{
		Use:     helperName + " SERVER:/export DIR [-fnsv] [-o OPTIONS]",
		Short:   "Mount an NFS export over RDMA or TCP",
		Long:    helperLong + mountLong[strings.Index(mountLong, "The options"):] + mountopt.Help(),
		Example: helperExample,
		Args:    cobra.ExactArgs(2),

		Annotations: map[string]string{cli.Protocols: protocols.List()},
		RunE: func(cmd *cobra.Command, args []string) error {
			if namespace != "" {
				return statusError(cmd, exitUsage, errors.New("-N: enter the namespace first, with nsenter(1)"))
			}
			return m.run(cmd, s, args[0], args[1])
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&m.options, "options", "o", nil, "mount `OPTIONS`, separated by commas (see above)")
	f.BoolVarP(&m.fake, "fake", "f", false, "check the arguments, and do not mount")
	f.BoolVarP(&noMtab, "no-mtab", "n", false, "accepted: there is no mtab")
	f.BoolVarP(&m.sloppy, "sloppy", "s", false, "ignore unknown options")
	f.BoolVarP(&m.verbose, "verbose", "v", false, "report each step")
	m.addMountFlags(f)
	f.StringVarP(&namespace, "namespace", "N", "", "not supported")
	cli.SetVersion(cmd)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.DisableFlagsInUseLine = true
	return cmd
}

// completeOptions completes the last option in a list.
func completeOptions(typed string) []string {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	given := strings.Split(before, ",")
	var list []string
	for _, c := range mountopt.Completions() {
		name, _, _ := strings.Cut(c, "\t")
		if strings.HasPrefix(c, typed[len(before):]) && !slices.Contains(given, name) {
			list = append(list, before+c)
		}
	}
	return list
}
