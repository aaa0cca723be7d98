// nfsrdma umount: the end of a mount, after the last write.

package main

import (
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
					failed = statusError(cmd, exitFailure, err)
				}
			}
			return failed
		},
		ValidArgsFunction: completeMounted,
	}
	cmd.Flags().BoolVarP(&lazy, "lazy", "l", false, "take it out of the tree now, and do not wait")
	return cmd
}

// completeMounted completes the directories of the mounts.
func completeMounted(*cobra.Command, []string, string) (dirs []string, _ cobra.ShellCompDirective) {
	list, _ := mountctl.List()
	for _, m := range list {
		dirs = append(dirs, m.Dir)
	}
	return dirs, cobra.ShellCompDirectiveNoFileComp
}
