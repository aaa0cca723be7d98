// nfsrdma umount: ends a mount after its last write.

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
		Long: `Unmount, and return when all written data is on the disk of the server. Data that
cannot be written is an error. A mount whose process was killed is removed.

The mount can also be in another mount namespace (a container, unshare) or on a
second directory. Then its process continues for those. After 5 seconds the command
prints one line, and ends with status 64. All written data is stable by then. The
status of other failures is 32.

With --lazy the command takes a busy mount out of the tree at once, and does not
wait. The mount ends when it is no longer in use.`,
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
	cmd.Flags().BoolVarP(&lazy, "lazy", "l", false, "take the mount out of the tree now, and do not wait")
	return cmd
}

// exitHeld is the exit status if another mount of the unmounted one remains.
const exitHeld = 64

// umountStatus returns the exit status for an error of Unmount.
func umountStatus(err error) int {
	var held *mounter.HeldError
	if errors.As(err, &held) {
		return exitHeld
	}
	return exitFailure
}

// worse returns the error with the more important status: a mount that remains, or lost data.
func worse(a, b error) error {
	if a == nil || errors.Is(a, cli.ExitError(exitHeld)) {
		return b
	}
	return a
}

// completeMounted completes the mount points.
func completeMounted(*cobra.Command, []string, string) (dirs []string, _ cobra.ShellCompDirective) {
	list, _ := mountctl.List()
	for _, m := range list {
		dirs = append(dirs, m.Dir)
	}
	return dirs, cobra.ShellCompDirectiveNoFileComp
}
