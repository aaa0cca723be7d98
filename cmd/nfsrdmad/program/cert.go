// nfsrdmad cert: a small certificate authority for TLS.

package program

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/spf13/cobra"
)

// certDir is the default directory of the authority.
const certDir = "/etc/nfsrdma/tls"

// certFlags are the flags of cert's subcommands.
type certFlags struct {
	dir   string
	name  string
	days  int
	force bool
}

func newCert(k *Kind) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Make certificates for TLS: an authority, servers, clients",
		Long: `Make the files for TLS, if you have no certificate authority: the authority's
certificate, certificates of servers and clients, and a list of those that are
revoked.

With ca.key, anybody can make certificates that all your hosts accept, so keep it on
one host. Keys have mode 0600. A file that exists is replaced only with --force.`,
		Example: `  nfsrdmad cert ca
  nfsrdmad cert server files.example.org 192.0.2.1
  nfsrdmad cert client pc7.example.org
  nfsrdmad cert revoke pc7.crt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCertCA(k), newCertLeaf(certs.ForServer), newCertLeaf(certs.ForClient), newCertRevoke(), newCertShow())
	return cmd
}

// add defines the flags that the commands share.
func (f *certFlags) add(cmd *cobra.Command, days int) {
	cmd.Flags().StringVar(&f.dir, "dir", certDir, "the `DIRECTORY` of the authority's files")
	cmd.Flags().IntVar(&f.days, "days", days, "valid for this `NUMBER` of days")
}

// addMaking defines the flags for commands that make a key and a certificate.
func (f *certFlags) addMaking(cmd *cobra.Command, days int, nameUsage string) {
	f.add(cmd, days)
	cmd.Flags().StringVar(&f.name, "name", "", nameUsage)
	cmd.Flags().BoolVar(&f.force, "force", false, "replace existing files")
}

// maxDays keeps dates below the year 10000, the limit of certificates.
const maxDays = 36525

func (f *certFlags) check() error {
	switch {
	case f.days < 1 || f.days > maxDays:
		return fmt.Errorf("--days %d: must be from 1 to %d", f.days, maxDays)
	case f.dir == "":
		return errors.New("--dir is empty: name a directory")
	}
	return nil
}

func newCertCA(k *Kind) *cobra.Command {
	var f certFlags
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Make a certificate authority",
		Long: `Make a certificate authority: its private key ca.key, and its certificate ca.crt,
which servers and clients need to check each other. Copy only ca.crt to them.`,
		Example: "  nfsrdmad cert ca\n  nfsrdmad cert ca --name \"Example files\" --dir ~/ca",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			name := f.name
			if name == "" {
				name = "NFS authority of " + hostname()
			}
			ca, err := certs.CreateCA(f.dir, name, f.days, f.force)
			if err != nil {
				return err
			}
			c := ca.Certificate()
			fmt.Fprintf(cmd.OutOrStdout(), "%s/%s: %s, until %s\nCopy it to all servers and clients. Next: %s cert server NAME...\n",
				f.dir, certs.AuthorityFile, c.Subject, certDate(c.NotAfter), k.name())
			return nil
		},
	}
	f.addMaking(cmd, certs.AuthorityDays, "the `NAME` of the authority (default: with this host's name)")
	return cmd
}

// hostname returns this host's name, for the authority's default name.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return name
}

func newCertLeaf(usage certs.Usage) *cobra.Command {
	var f certFlags
	cmd := &cobra.Command{Args: cobra.MinimumNArgs(1)}
	if usage == certs.ForServer {
		cmd.Use = "server NAME..."
		cmd.Short = "Make a server's key and certificate"
		cmd.Long = `Make a server's private key and certificate. Name all host names and addresses by
which clients mount it: a client refuses a certificate without the name that it uses.`
		cmd.Example = "  nfsrdmad cert server files.example.org 192.0.2.1\n  nfsrdmad cert server files files.example.org --days 90"
	} else {
		cmd.Use = "client NAME..."
		cmd.Short = "Make a client's key and certificate"
		cmd.Long = `Make a client's private key and certificate, for xprtsec=mtls. A NAME is a host name,
an address, an email address or a URI. The exports file can have rules for names.`
		cmd.Example = "  nfsrdmad cert client pc7.example.org\n  nfsrdmad cert client alice@example.org --name alice"
	}
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := f.check(); err != nil {
			return err
		}
		base := f.name
		if base == "" {
			base = fileName(names[0])
		}
		switch {
		case strings.ContainsRune(base, '/') || strings.HasPrefix(base, "."):
			return fmt.Errorf("--name %s: must be a file name", base)
		case base == "ca":
			return errors.New("--name ca: is the authority's: choose another")
		}
		ca, err := certs.OpenCA(f.dir)
		if err != nil {
			return err
		}
		certFile, keyFile, err := ca.Issue(usage, base, names, f.days, f.force)
		if err != nil {
			return err
		}
		_, made, err := certs.Read(certFile)
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		fmt.Fprintf(w, "%s: for %s, until %s\n%s: its private key\n", certFile, strings.Join(names, ", "), certDate(made[0].NotAfter), keyFile)
		if usage == certs.ForServer {
			fmt.Fprintf(w, "Next: start the server with both. Clients need %s/%s\n", f.dir, certs.AuthorityFile)
			return nil
		}
		fmt.Fprintf(w, "Next: move both to the client, copy %s/%s, and mount there with xprtsec=mtls\n", f.dir, certs.AuthorityFile)
		return nil
	}
	f.addMaking(cmd, certs.LeafDays, "the `NAME` of the files, without .crt and .key (default: the first NAME)")
	return cmd
}

// fileName makes the name of files from a certificate's first name.
func fileName(name string) string {
	if _, rest, ok := strings.Cut(name, "://"); ok {
		name = rest
	}
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/*:", r) {
			return '_'
		}
		return r
	}, name)
}

func newCertRevoke() *cobra.Command {
	var f certFlags
	cmd := &cobra.Command{
		Use:   "revoke [FILE]...",
		Short: "Revoke certificates, or renew the revocation list",
		Long: `Add certificates to the authority's list of revoked certificates, ca.crl, and renew
the list. Without a FILE, only renew it. Servers that use the list read it again by
themselves.

A list has an end, by --days, and a server refuses all clients with certificates when
its list has ended. So run this command regularly.`,
		Example: "  nfsrdmad cert revoke pc7.crt\n  nfsrdmad cert revoke --days 90",
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := f.check(); err != nil {
				return err
			}
			ca, err := certs.OpenCA(f.dir)
			if err != nil {
				return err
			}
			var revoked []*x509.Certificate
			for _, file := range files {
				list, all, err := certs.Read(file)
				switch {
				case err != nil:
					return err
				case list != nil:
					return fmt.Errorf("%s is a revocation list: name a certificate", file)
				}
				revoked = append(revoked, all[0])
			}
			file, entries, err := ca.Revoke(revoked, f.days)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s. Next: copy it to the servers, and renew it within %s\n",
				file, text.Plural(int64(entries), "revoked certificate"), text.Plural(int64(f.days), "day"))
			return nil
		},
	}
	f.add(cmd, certs.ListDays)
	return cmd
}
