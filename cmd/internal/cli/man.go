// The manual pages, made from the help texts.

package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages to a directory",
		Example: fmt.Sprintf("  %[1]s man /usr/local/share/man/man1 && man %[1]s", root.Name()),
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: root.Name() + " " + root.Version, Manual: "NFS over RDMA"}
			return doc.GenManTree(root, header, args[0])
		},
	}
}
