// nfsrdmad cert show: certificates and revocation lists in readable form.

package program

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/spf13/cobra"
)

func newCertShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show FILE...",
		Short: "Show certificates and revocation lists",
		Long: `Show the certificates or the revocation lists in files: their names, their issuer,
the days to their end, and the SHA-256 fingerprint. If one has ended, the exit status
is 1.`,
		Example: "  nfsrdmad cert show server.crt ca.crl",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			ended := 0
			for _, file := range files {
				lists, all, err := certs.Read(file)
				if err != nil {
					return err
				}
				for _, c := range all {
					ended += showCertificate(cmd.OutOrStdout(), file, c, time.Now())
				}
				for _, l := range lists {
					ended += showList(cmd.OutOrStdout(), file, l, time.Now())
				}
			}
			if ended > 0 {
				return fmt.Errorf("%s expired: make new ones", text.Plural(int64(ended), "certificate or list"))
			}
			return nil
		},
	}
}

// showCertificate prints a certificate. It returns 1 if the certificate has ended.
func showCertificate(w io.Writer, file string, c *x509.Certificate, now time.Time) int {
	fmt.Fprintf(w, "%s: certificate of %s\n", file, cell(c.Subject.String()))
	var names []string
	names = append(names, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	names = append(names, c.EmailAddresses...)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	for i := range names {
		names[i] = cell(names[i])
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "  names        %s\n", strings.Join(names, ", "))
	}
	fmt.Fprintf(w, "  for          %s\n", strings.Join(purposes(c), ", "))
	fmt.Fprintf(w, "  issuer       %s\n", cell(c.Issuer.String()))
	fmt.Fprintf(w, "  valid        %s to %s, %s\n", certDate(c.NotBefore), certDate(c.NotAfter), daysLeft(c.NotAfter, now))
	fmt.Fprintf(w, "  serial       %x\n", c.SerialNumber)
	fmt.Fprintf(w, "  fingerprint  %x\n", sha256.Sum256(c.Raw))
	return one(now.After(c.NotAfter))
}

// purposes lists the uses of a certificate.
func purposes(c *x509.Certificate) (all []string) {
	if c.IsCA {
		all = append(all, "authority")
	}
	for _, u := range c.ExtKeyUsage {
		switch u {
		case x509.ExtKeyUsageServerAuth:
			all = append(all, "servers")
		case x509.ExtKeyUsageClientAuth:
			all = append(all, "clients")
		}
	}
	if all == nil {
		return []string{"any use"}
	}
	return all
}

// showList prints a revocation list. It returns 1 if the list has ended.
func showList(w io.Writer, file string, l *x509.RevocationList, now time.Time) int {
	fmt.Fprintf(w, "%s: revocation list of %s\n", file, cell(l.Issuer.String()))
	fmt.Fprintf(w, "  valid        %s to %s, %s\n", certDate(l.ThisUpdate), certDate(l.NextUpdate), daysLeft(l.NextUpdate, now))
	for _, e := range l.RevokedCertificateEntries {
		fmt.Fprintf(w, "  revoked      %x, %s\n", e.SerialNumber, certDate(e.RevocationTime))
	}
	return one(now.After(l.NextUpdate))
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// daysLeft formats the whole days until an end, or since it.
func daysLeft(end, now time.Time) string {
	if now.After(end) {
		return text.Plural(int64(now.Sub(end)/(24*time.Hour)), "day") + " ago"
	}
	return text.Plural(int64(end.Sub(now)/(24*time.Hour)), "day") + " left"
}

func certDate(t time.Time) string { return t.UTC().Format("2006-01-02") }
