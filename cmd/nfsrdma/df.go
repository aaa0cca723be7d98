// nfsrdma df: the space in file systems.

package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/mattn/go-runewidth"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/spf13/cobra"
)

// A dfRow is the file system that contains a path; sizes are in bytes.
type dfRow struct {
	Filesystem string `json:"filesystem"`  // HOST:/export
	Path       string `json:"path"`        // as it was typed
	Size       uint64 `json:"size"`        // bytes in all
	Used       uint64 `json:"used"`        // bytes in use
	Avail      uint64 `json:"avail"`       // bytes that the user can still use
	Files      uint64 `json:"files"`       // inodes in all
	FilesUsed  uint64 `json:"files_used"`  // inodes in use
	FilesFree  uint64 `json:"files_free"`  // inodes that are free
	FilesAvail uint64 `json:"files_avail"` // inodes that the user can still use
}

func newDf(s *session.Session) *cobra.Command {
	var human, inodes, portable, asJSON bool
	cmd := &cobra.Command{
		Use:   "df [-h] [-i] PATH...",
		Short: "Show the space of exports",
		Long:  "Show the space of the file systems of paths. The unit is 1,024 bytes unless -h is given.",
		Example: `  nfsrdma df -h nfsrdma://server/export
  nfsrdma df --json server:/export`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rep := s.Reporter("df")
			var rows []dfRow
			err := s.EachOperand(cmd.Context(), rep, "", args, func(o session.Operand) error {
				st, err := o.FS.StatFSOf(cmd.Context(), o.Path)
				if err == nil {
					rows = append(rows, newDfRow(s, o, &st))
				}
				return err
			})
			if cmd.Context().Err() != nil {
				return err
			}
			switch {
			case asJSON:
				list := text.NewJSONArray(cmd.OutOrStdout())
				for i := range rows {
					list.Item(&rows[i])
				}
				list.End()
			case len(rows) > 0:
				writeDf(cmd.OutOrStdout(), rows, human, inodes, portable)
			}
			return err
		},
	}
	cmd.Flags().Bool("help", false, "help for df") // -h has another meaning
	cmd.Flags().BoolVarP(&human, "human-readable", "h", false, "sizes like 1.5K and 234M")
	cmd.Flags().BoolVarP(&inodes, "inodes", "i", false, "numbers of files in place of space")
	cmd.Flags().BoolVarP(&portable, "portability", "P", false, "the column heads of POSIX")
	cmd.Flags().BoolVar(&asJSON, "json", false, "a JSON array, in bytes")
	return cmd
}

func newDfRow(s *session.Session, o session.Operand, st *nfs3.FsstatRes) dfRow {
	return dfRow{
		Filesystem: exportName(s, o), Path: o.Arg,
		Size: st.Tbytes, Used: st.Tbytes - min(st.Fbytes, st.Tbytes), Avail: st.Abytes,
		Files: st.Tfiles, FilesUsed: st.Tfiles - min(st.Ffiles, st.Tfiles), FilesFree: st.Ffiles, FilesAvail: st.Afiles,
	}
}

// exportName returns HOST:/export, the form of mount(8).
func exportName(s *session.Session, o session.Operand) string {
	t, err := s.Target(o.Arg)
	if err != nil {
		return o.FS.Path()
	}
	return t.Hosts() + ":" + o.FS.Path()
}

// writeDf writes the table of df(1).
func writeDf(out io.Writer, rows []dfRow, human, inodes, portable bool) {
	head := []string{"Filesystem", "1K-blocks", "Used", "Available", "Use%", "Mounted on"}
	switch {
	case inodes:
		head = []string{"Filesystem", "Inodes", "IUsed", "IFree", "IUse%", "Mounted on"}
	case human:
		head[1], head[3] = "Size", "Avail"
	case portable:
		head[1] = "1024-blocks"
	}
	if portable && !inodes {
		head[4] = "Capacity"
	}
	table := [][]string{head}
	for _, r := range rows {
		table = append(table, r.cells(human, inodes))
	}
	width := []int{14, 5, 5, 5, 4, 0} // df(1)'s minimum widths
	for _, line := range table {
		for i, c := range line {
			width[i] = max(width[i], runewidth.StringWidth(c))
		}
	}
	for _, line := range table {
		fmt.Fprint(out, text.PadRight(line[0], width[0]))
		for i, c := range line[1:5] {
			fmt.Fprint(out, " ", text.PadLeft(c, width[i+1]))
		}
		fmt.Fprintln(out, "", line[5])
	}
}

func (r *dfRow) cells(human, inodes bool) []string {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	total, used, free, avail := r.Size, r.Used, r.Avail, r.Avail
	switch {
	case inodes:
		total, used, free, avail = r.Files, r.FilesUsed, r.FilesFree, r.FilesFree
	case !human:
		number = func(n uint64) string { return strconv.FormatUint(n/1024+(n%1024+1023)/1024, 10) }
	}
	if human {
		number = text.HumanSize
	}
	percent := "-"
	if sum := float64(used) + float64(avail); sum > 0 {
		p := uint64(100 * float64(used) / sum)
		if 100*float64(used) > float64(p)*sum {
			p++ // rounded up
		}
		percent = strconv.FormatUint(p, 10) + "%"
	}
	return []string{text.HideControl(r.Filesystem), number(total), number(used), number(free), percent, text.HideControl(r.Path)}
}
