// The TLS configuration for a server's connections.

package nfsclient

import (
	"crypto/tls"
	"testing"
)

// If there are several servers, their certificates must have the same name.
func TestTLSName(t *testing.T) {
	o := Options{TLS: func(server string) *tls.Config { return &tls.Config{ServerName: server} }}
	cfg, err := o.tlsOf(Target{Host: "a"})
	if err != nil || cfg.ServerName != "a" {
		t.Errorf("one server: got %v, %v", cfg, err)
	}
	if _, err := o.tlsOf(Target{Host: "a", Others: "b"}); err == nil {
		t.Error("two servers without a common name: accepted, want an error")
	}
	o.TLS = func(string) *tls.Config { return &tls.Config{ServerName: "both"} }
	if cfg, err := o.tlsOf(Target{Host: "a", Others: "b"}); err != nil || cfg.ServerName != "both" {
		t.Errorf("two servers with a common name: got %v, %v", cfg, err)
	}
	o.TLS = nil
	if cfg, err := o.tlsOf(Target{Host: "a"}); cfg != nil || err != nil {
		t.Errorf("without TLS: got %v, %v", cfg, err)
	}
}
