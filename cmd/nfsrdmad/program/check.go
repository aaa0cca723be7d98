// nfsrdmad check: validates an exports file and shows clients' rights.

package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/spf13/cobra"
)

// defaultExports is nfsrdmad's default exports file; a test replaces it.
var defaultExports = "/etc/nfsrdma/exports"

// nameWait limits check's wait for a client's names.
const nameWait = 15 * time.Second

func newCheck(k *Kind) *cobra.Command {
	var client, memory, file string
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check an exports file, and show the rights of clients",
		Long: `Check an exports file, and show the rights that it gives, with defaults. If it has
mistakes, show all of them with line and column. Warn of host names that do not
resolve, with exit status 0.

With --client, show the rights of one client in a path, and the rule that gives them.
That is the most specific rule, as in exports(5). Without a path, show its rights in
all exports. If the client is refused, the exit status is 1. The default FILE is
` + k.exportsFile() + `.`,
		Example: `  nfsrdmad check
  nfsrdmad check new-exports
  nfsrdmad check --client 10.0.0.7
  nfsrdmad check --client 10.0.0.7 /srv/data
  nfsrdmad check --memory new-exports
  nfsrdmad check --client pc7.example.org new-exports /srv/data`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("exports") {
				args = append([]string{file}, args...)
			}
			if !cmd.Flags().Changed("client") {
				return k.checkFile(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), memory, args)
			}
			return k.checkClient(cmd.Context(), cmd.OutOrStdout(), client, cmd.Flags().Changed("exports"), args)
		},
	}
	cmd.Flags().StringVar(&client, "client", "", "show the rights of the client with this `ADDRESS` or name")
	cmd.Flags().StringVar(&file, "exports", "", "check this `FILE`, as for serve")
	cmd.Flags().StringVar(&memory, "memory", "", "the `NAME` of the memory tree, if the server has one: its line is no directory")
	cmd.Flags().Lookup("memory").NoOptDefVal = defaultMemory
	return cmd
}

// readExports reads and parses an exports file. The error has the first mistake, and their number.
func readExports(name string) (*exports.File, error) {
	f, mistakes, err := readMistakes(name)
	switch {
	case err != nil:
		return nil, err
	case len(mistakes) == 1:
		return nil, mistakes[0]
	case len(mistakes) > 1:
		return nil, fmt.Errorf("%w (the first of %d mistakes: the command check shows all)", mistakes[0], len(mistakes))
	}
	return f, nil
}

// readMistakes reads and parses an exports file, and returns all mistakes.
func readMistakes(name string) (f *exports.File, mistakes []error, err error) {
	text, err := os.ReadFile(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil, fmt.Errorf("exports file %s does not exist: create it, or name another", name)
	case err != nil:
		return nil, nil, fmt.Errorf("exports file: %w", err)
	}
	f, mistakes = exports.ParseAll(name, text)
	return f, mistakes, nil
}

// checkFile prints a whole file to w, or the file's mistakes to complain. Warnings about host names
// also go to complain.
func (k *Kind) checkFile(ctx context.Context, w, complain io.Writer, memory string, args []string) error {
	name := k.exportsFile()
	switch len(args) {
	case 0:
	case 1:
		name = args[0]
	default:
		return errors.New("too many arguments: name one FILE, or add --client ADDRESS to check a path")
	}
	f, mistakes, err := readMistakes(name)
	switch {
	case err != nil:
		return err
	case len(mistakes) == 1:
		return mistakes[0]
	case len(mistakes) > 1:
		for _, m := range mistakes {
			fmt.Fprintln(complain, m)
		}
		return fmt.Errorf("%s: %d mistakes: correct them, and check it again", name, len(mistakes))
	}
	faults := 0
	for _, x := range f.Exports {
		if x.Path == memory {
			if err := memoryMistake(name, x); err != nil {
				return err
			}
		}
		fmt.Fprintf(w, "%s%s\n", x.Path, wholeWords(&x.Whole))
		for i := range x.Clients {
			c := &x.Clients[i]
			fmt.Fprintf(w, "  %-24s %s\n", c.Spec, &c.Options)
		}
		if k != nil || x.Path == memory {
			continue // a volume, or the tree in memory: no directory to check
		}
		if err := checkDir(x.Path); err != nil {
			faults++
			fmt.Fprintf(w, "  not served: %v\n", err)
		}
	}
	for _, warning := range unresolved(ctx, net.DefaultResolver, name, f) {
		fmt.Fprintln(complain, warning)
	}
	if faults > 0 {
		return fmt.Errorf("%s: %d of %d directories cannot be exported", name, faults, len(f.Exports))
	}
	return nil
}

// checkDir returns the reason why a directory cannot be exported, or nil.
func checkDir(dir string) error {
	switch info, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("directory %s does not exist: make it, or name another", dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	return nil
}

// wholeWords formats a whole export's options for the line with its path.
func wholeWords(w *exports.Whole) string {
	if words := wholeOptions(w); len(words) > 0 {
		return "  (" + strings.Join(words, ", ") + ")"
	}
	return ""
}

// wholeOptions returns the whole export's options that differ from the default.
func wholeOptions(w *exports.Whole) []string {
	words := []string{}
	for _, o := range []struct {
		on   bool
		word string
	}{{w.CrossMounts, "crossmnt"}, {w.NoHide, "nohide"}, {w.SubtreeCheck, "subtree_check"}} {
		if o.on {
			words = append(words, o.word)
		}
	}
	if w.HasFSID {
		words = append(words, fmt.Sprintf("fsid=%d", w.FSID))
	}
	return words
}

// checkClient prints a client's rights for a path, or for all exports. asked means that the first
// argument names the exports file.
func (k *Kind) checkClient(ctx context.Context, w io.Writer, client string, asked bool, args []string) error {
	name, dir := k.exportsFile(), ""
	switch {
	case len(args) == 2:
		name, dir = args[0], args[1]
	case len(args) == 1 && !asked && strings.HasPrefix(args[0], "/"):
		dir = args[0]
	case len(args) == 1:
		name = args[0]
	}
	if dir != "" && !strings.HasPrefix(dir, "/") {
		return fmt.Errorf("--client: %s is not an absolute path: write %s check --client ADDRESS [FILE] /PATH", dir, k.name())
	}
	f, err := readExports(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, nameWait)
	defer cancel()
	addrs, err := addressesOf(ctx, client)
	if err != nil {
		return err
	}
	var errs []error
	names := exports.NewNames(nil)
	if dir == "" {
		return printAllRights(ctx, w, f, names, addrs)
	}
	for _, addr := range addrs {
		if err := printRights(ctx, w, f, names, addr, path.Clean(dir)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// printAllRights prints a client's rights in each export. It fails if no export admits the client.
func printAllRights(ctx context.Context, w io.Writer, f *exports.File, names *exports.Names, addrs []netip.Addr) error {
	granted := false
	for _, addr := range addrs {
		for _, x := range f.Exports {
			if err := printRights(ctx, w, f, names, addr, x.Path); err != nil {
				fmt.Fprintln(w, err)
				continue
			}
			granted = true
		}
	}
	if !granted {
		return errors.New("no export lets this client in")
	}
	return nil
}

// addressesOf returns the addresses of a client.
func addressesOf(ctx context.Context, client string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(client); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", client)
	if err != nil {
		return nil, fmt.Errorf("--client %s: no such host, and not an address: %w", client, err)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}

// printRights prints the rights of addr in path p.
func printRights(ctx context.Context, w io.Writer, f *exports.File, names *exports.Names, addr netip.Addr, p string) error {
	exported := false
	for dir := p; ; dir = path.Dir(dir) {
		for _, x := range f.Exports {
			if x.Path != dir {
				continue
			}
			exported = true
			c, err := clientOf(ctx, x, addr, names)
			if err != nil {
				return err
			}
			if c != nil {
				fmt.Fprintf(w, "%s on %s: %s\n  by %s of %s: %s\n", addr, p, rightsWords(&c.Options), c.Spec, x.Path, &c.Options)
				return nil
			}
		}
		if dir == "/" {
			break
		}
	}
	if !exported {
		return fmt.Errorf("%s on %s: refused: no export of the file has this path", addr, p)
	}
	return fmt.Errorf("%s on %s: refused: the file names no client with this address", addr, p)
}

// clientOf returns the client entry in x that matches addr. It waits for name lookups.
func clientOf(ctx context.Context, x *exports.Export, addr netip.Addr, names *exports.Names) (*exports.Client, error) {
	for {
		m := x.Match(addr, names)
		if !m.Pending {
			return m.Client, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot look up the host name of %s: DNS did not answer within %v", addr, nameWait)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// rightsWords describes options in words.
func rightsWords(o *exports.Options) string {
	s := "reads and writes"
	if o.ReadOnly {
		s = "reads"
	}
	switch {
	case o.AllSquash:
		s += fmt.Sprintf(", all users act as %d:%d", o.AnonUID, o.AnonGID)
	case o.NoRootSquash:
		s += ", root is root"
	default:
		s += fmt.Sprintf(", root acts as %d:%d", o.AnonUID, o.AnonGID)
	}
	if o.Secure && !proven(&o.Security) {
		s += ", over TCP only from ports below 1024"
	}
	return s + securityWords(&o.Security)
}

// securityWords describes the demands on a client's calls and connections; "": any flavor of
// AUTH_SYS and AUTH_NONE, in clear.
func securityWords(d *exports.Security) (s string) {
	switch flavors := d.Flavors(); {
	case len(flavors) == 0:
	case proven(d):
		s = ", with Kerberos alone (sec=" + d.FlavorNames() + ")"
	default:
		s = ", with sec=" + d.FlavorNames()
	}
	switch d.XprtSec {
	case transport.XprtTLS:
		s += ", over TLS alone"
	case transport.XprtMTLS:
		s += ", over TLS alone with a certificate of the client"
	}
	return s
}
