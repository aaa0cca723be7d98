// The manual pages, made from the help texts.

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan(root *cobra.Command, helpers []*cobra.Command) *cobra.Command {
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
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return err
			}
			for _, h := range helpers {
				if err := helperPage(h, header.Source, args[0]); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// Section is the annotation of a helper that says which section its page is in; without, 8.
const Section = "section"

// helperPage writes the page of a helper of another program, or of a file.
func helperPage(h *cobra.Command, source, dir string) error {
	section := h.Annotations[Section]
	if section == "" {
		section = "8"
	}
	f, err := os.Create(filepath.Join(dir, h.Name()+"."+section))
	if err != nil {
		return err
	}
	h.DisableAutoGenTag = true
	err = doc.GenMan(h, &doc.GenManHeader{Title: strings.ToUpper(h.Name()), Section: section, Source: source, Manual: "NFS over RDMA"}, f)
	return errors.Join(err, f.Close())
}
