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
		Use:   "man DIR",
		Short: "Write the manual pages to a directory",
		Long: `Write the manual pages to a directory for man(1). Pages of commands go to DIR/man1,
of file formats to DIR/man5, and of servers to DIR/man8.`,
		Example: fmt.Sprintf("  %[1]s man /usr/local/share/man && man %[1]s", root.Name()),
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			root.DisableAutoGenTag = true
			section := sectionOf(root, "1")
			forMan(root)
			header := &doc.GenManHeader{Section: section, Source: root.Name() + " " + root.Version, Manual: manual}
			dir, err := sectionDir(args[0], section)
			if err == nil {
				err = doc.GenManTree(root, header, dir)
			}
			if err == nil {
				err = arrangeAll(root, dir, section)
			}
			for _, h := range helpers {
				if err == nil {
					err = helperPage(h, header.Source, args[0])
				}
			}
			return err
		},
	}
}

const manual = "NFS over RDMA"

// Section is the annotation with the manual section of a program's or file's pages. The default
// section is 1 for a program and 8 for a helper.
const Section = "section"

func sectionOf(cmd *cobra.Command, usual string) string {
	if s := cmd.Annotations[Section]; s != "" {
		return s
	}
	return usual
}

// sectionDir makes the directory of a section.
func sectionDir(dir, section string) (string, error) {
	dir = filepath.Join(dir, "man"+section)
	return dir, os.MkdirAll(dir, 0o755)
}

// helperPage writes the page of a file or of a program's helper.
func helperPage(h *cobra.Command, source, dir string) error {
	section := sectionOf(h, "8")
	dir, err := sectionDir(dir, section)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, h.Name()+"."+section))
	if err != nil {
		return err
	}
	h.DisableAutoGenTag = true
	h.InitDefaultHelpFlag()
	h.Flags().Lookup("help").Hidden = section == "5" // a file format has no flags
	forMan(h)
	err = doc.GenMan(h, &doc.GenManHeader{Title: strings.ToUpper(h.Name()), Section: section, Source: source, Manual: manual}, f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = arrange(h, f.Name())
	}
	return err
}

// forMan converts the help texts of cmd and all commands below it to Markdown for the page
// generator, and adds the facts as sections.
func forMan(cmd *cobra.Command) {
	long := cmd.Long
	if long == "" {
		long = cmd.Short
	}
	cmd.Long = definitions(long) + facts(cmd)
	for _, c := range cmd.Commands() {
		forMan(c)
	}
}
