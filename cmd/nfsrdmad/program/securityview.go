// Security in status and metrics: when certificates expire, and Kerberos contexts.

package program

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/prometheus/client_golang/prometheus"
)

// A tlsStatus is the state of TLS in the server.
type tlsStatus struct {
	Certificate string     `json:"certificate"`           // file
	Expires     time.Time  `json:"expires"`               // of the certificate
	Days        float64    `json:"expires_days"`          // until then; negative: it has expired
	Kernel      bool       `json:"kernel"`                // the kernel encrypts new sessions over TCP
	Lists       *time.Time `json:"crl_expires,omitempty"` // of the first revocation list
	Error       string     `json:"error,omitempty"`       // of changed files that are not in use
}

// A kerberosStatus is the state of Kerberos in the server.
type kerberosStatus struct {
	Principals []string `json:"principals"` // of the keytab
	Contexts   int      `json:"contexts"`   // established now
	Created    uint64   `json:"created"`    // contexts since the start
	Refused    uint64   `json:"refused"`    // contexts since the start
	Evicted    uint64   `json:"evicted"`    // contexts that made room for others
}

const day = 24 * time.Hour

// tlsStatus returns the state of TLS; nil: no TLS.
func (s *security) tlsStatus() *tlsStatus {
	if s.store == nil {
		return nil
	}
	stats := s.store.Stats()
	r := &tlsStatus{Certificate: s.cert, Expires: stats.NotAfter, Days: float64(time.Until(stats.NotAfter)) / float64(day), Kernel: s.inKernel}
	if !stats.NextUpdate.IsZero() {
		r.Lists = &stats.NextUpdate
	}
	if stats.Err != nil {
		r.Error = stats.Err.Error()
	}
	return r
}

// status returns the state of Kerberos; nil: no export needs it.
func (k *kerberos) status() *kerberosStatus {
	f, ok := k.figures()
	if !ok {
		return nil
	}
	k.live.mu.Lock()
	defer k.live.mu.Unlock()
	return &kerberosStatus{Principals: append([]string{}, k.live.principals...), Contexts: f.Contexts, Created: f.Created, Refused: f.Refused, Evicted: f.Evicted}
}

// figures returns the counts of contexts; false: no Kerberos.
func (k *kerberos) figures() (gss.Figures, bool) {
	if k.live == nil {
		return gss.Figures{}, false
	}
	s := k.live.flavor.server.Load()
	if s == nil {
		return gss.Figures{}, false
	}
	return s.Figures(), true
}

// showSecurity prints the lines of status about TLS and Kerberos.
func showSecurity(w io.Writer, t *tlsStatus, k *kerberosStatus) {
	if t != nil {
		fmt.Fprintf(w, "  tls          certificate %s expires in %.0f days (%s)", t.Certificate, t.Days, t.Expires.Local().Format(time.DateTime))
		if t.Lists != nil {
			fmt.Fprintf(w, ", a revocation list %s", t.Lists.Local().Format(time.DateTime))
		}
		fmt.Fprintln(w)
		if t.Kernel {
			fmt.Fprintln(w, "  tls          the kernel encrypts new sessions over TCP")
		}
		if t.Error != "" {
			fmt.Fprintf(w, "  tls          changed files are not in use: %s\n", t.Error)
		}
	}
	if k != nil {
		fmt.Fprintf(w, "  kerberos     %s; %s, %d created, %d refused\n", strings.Join(k.Principals, ", "), text.Plural(int64(k.Contexts), "context"), k.Created, k.Refused)
	}
}

var (
	certificateDays = desc("tls_certificate_expiry_days", "Days until the certificate of the server expires; negative: it has.")
	listDays        = desc("tls_crl_expiry_days", "Days until the first revocation list expires; negative: it has.")
	gssContexts     = desc("gss_contexts", "Kerberos contexts of clients.")
	gssFailures     = desc("gss_failures_total", "Refused Kerberos contexts, and refused calls in contexts, by reason.", "reason")
	gssCreations    = desc("gss_context_creations_total", "Kerberos contexts by result: created, refused, or evicted to make room for another.", "result")
)

// securityFigures has the metrics of TLS and Kerberos.
type securityFigures struct{ *security }

// Describe implements prometheus.Collector.
func (securityFigures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{certificateDays, listDays, gssContexts, gssCreations, gssFailures} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s securityFigures) Collect(ch chan<- prometheus.Metric) {
	if t := s.tlsStatus(); t != nil {
		ch <- gauge(certificateDays, t.Days)
		if t.Lists != nil {
			ch <- gauge(listDays, float64(time.Until(*t.Lists))/float64(day))
		}
	}
	f, ok := s.kerberos.figures()
	for _, r := range gss.Reasons() {
		ch <- counter(gssFailures, f.Failures[r], r.String())
	}
	if ok {
		ch <- gauge(gssContexts, f.Contexts)
		ch <- counter(gssCreations, f.Created, "created")
		ch <- counter(gssCreations, f.Refused, "refused")
		ch <- counter(gssCreations, f.Evicted, "evicted")
	}
}
