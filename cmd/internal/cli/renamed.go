// Old names of flags: they work like the new ones, are hidden in the help, and cause one warning
// each.

package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Renamed keeps the old name of a flag of cmd.
func Renamed(cmd *cobra.Command, old, name string) {
	flag := cmd.Flags().Lookup(name)
	f := cmd.Flags().VarPF(&renamed{Value: flag.Value, cmd: cmd, flag: flag, old: old}, old, "", "")
	f.Hidden, f.NoOptDefVal = true, flag.NoOptDefVal
}

// A renamed is the value of a flag under its old name.
type renamed struct {
	pflag.Value
	cmd  *cobra.Command
	flag *pflag.Flag
	old  string
}

// Set sets the flag under its new name, and warns.
func (r *renamed) Set(value string) error {
	Warn(r.cmd, fmt.Sprintf("--%s is now called --%s", r.old, r.flag.Name))
	if err := r.Value.Set(value); err != nil {
		return err
	}
	r.flag.Changed = true
	return nil
}

// Warn writes one line of warning about how cmd was called.
func Warn(cmd *cobra.Command, line string) {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", cmd.Root().Name(), line)
}
