// nfsrdma umount: the end of a mount, after the last write.

package main

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mounter"
	"github.com/spf13/cobra"
)

func newUmount() *cobra.Command {
	var lazy bool
	cmd := &cobra.Command{
		Use:   "umount DIR...",
		Short: "Unmount what nfsrdma mount mounted",
		Long: `Unmount, and return when everything that was written is on the server's disk; data that
could not be written is an error. A mount whose process was killed is cleared.

Where another mount namespace has a copy of the mount (a container, unshare), or it is mounted on
a second directory, its process goes on for that: after 5 seconds one line says so, and the exit
status is 64. What was written is stable by then. Other failures have the status 32.

With --lazy a mount that is in use is taken out of the tree at once, and ends when nothing
uses it any more; nothing is waited for.`,
		Example: `  nfsrdma umount /mnt
  nfsrdma umount --lazy /mnt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var failed error
			for _, arg := range args {
				err := mounter.Unmount(cmd.Context(), arg, lazy, cmd.ErrOrStderr())
				if cmd.Context().Err() != nil {
					return cmd.Context().Err()
				}
				if err != nil {
					failed = worse(failed, statusError(cmd, umountStatus(err), err))
				}
			}
			return failed
		},
		ValidArgsFunction: completeMounted,
	}
	cmd.Flags().BoolVarP(&lazy, "lazy", "l", false, "take it out of the tree now, and do not wait")
	return cmd
}

// exitHeld is the exit status for a mount that is unmounted, while another mount of it stays.
const exitHeld = 64

// umountStatus is the exit status for an error of Unmount.
func umountStatus(err error) int {
	var held *mounter.HeldError
	if errors.As(err, &held) {
		return exitHeld
	}
	return exitFailure
}

// worse is that of two errors of which the status tells more: that something is still mounted, or lost.
func worse(a, b error) error {
	if a == nil || errors.Is(a, cli.ExitError(exitHeld)) {
		return b
	}
	return a
}

// completeMounted completes the directories of the mounts.
func completeMounted(*cobra.Command, []string, string) (dirs []string, _ cobra.ShellCompDirective) {
	list, _ := mountctl.List()
	for _, m := range list {
		dirs = append(dirs, m.Dir)
	}
	return dirs, cobra.ShellCompDirectiveNoFileComp
}
