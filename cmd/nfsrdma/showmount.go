// nfsrdma showmount: lists a server's exports.

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/spf13/cobra"
)

// A jsonExport is one export, for --json. Without Clients, all hosts are permitted.
type jsonExport struct {
	Path    string   `json:"path"`    // of the export
	Clients []string `json:"clients"` // permitted hosts, as named by the server; none: all
}

func newShowmount(s *session.Session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "showmount HOST",
		Short: "List what a server exports, and to whom",
		Example: `  nfsrdma showmount server
  nfsrdma showmount --proto tcp --mount-port 20048 server`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := s.Server(args[0])
			if err != nil {
				return err
			}
			c, err := s.Dial(cmd.Context(), t)
			if err != nil {
				return err
			}
			var list []mount3.Export
			err = s.FirstAnswer(cmd.Context(), t, "list exports", func(ctx context.Context) (err error) {
				list, err = c.Exports(ctx)
				return err
			})
			if err != nil {
				return err
			}
			array := text.NewJSONArray(cmd.OutOrStdout())
			for _, x := range list {
				if asJSON {
					array.Item(&jsonExport{x.Dir, append([]string{}, x.Groups...)})
					continue
				}
				who := "everyone"
				if len(x.Groups) > 0 {
					who = strings.Join(x.Groups, ",")
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", text.HideControl(x.Dir), text.HideControl(who))
			}
			if asJSON {
				array.End()
			}
			return nil
		},
	}
	cmd.Flags().BoolP("exports", "e", false, "list the exports, as without it (for users of showmount(8))")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array with path and clients of each export")
	return cmd
}
