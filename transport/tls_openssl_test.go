// OpenSSL as the other end of a session.

package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// mandatorySuite is the cipher suite that each TLS 1.3 has (RFC 8446 §9.1).
const mandatorySuite = "TLS_AES_128_GCM_SHA256"

// openssl runs a command of OpenSSL until the test ends.
func openssl(t *testing.T, args ...string) (in io.WriteCloser, out io.Reader) {
	t.Helper()
	path, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl")
	}
	cmd := exec.Command(path, args...)
	in, err = cmd.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	out, err = cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("openssl: %s", errs.String())
		}
	})
	return in, out
}

// pemFiles writes a certificate with its key, and the authority's.
func pemFiles(t *testing.T, cert tls.Certificate) (leaf, ca string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatalf("MarshalPKCS8PrivateKey: %v", err)
	}
	block := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
	leaf, ca = filepath.Join(t.TempDir(), "leaf"), filepath.Join(t.TempDir(), "ca")
	must.Succeed(t, os.WriteFile(leaf, append(block("CERTIFICATE", cert.Certificate[0]), block("PRIVATE KEY", key)...), 0o600))
	must.Succeed(t, os.WriteFile(ca, block("CERTIFICATE", testPKI().ca.cert.Raw), 0o600))
	return leaf, ca
}

// afterProbe listens for one connection, passes it to a server that needs a probe first, and
// carries the bytes of both.
func afterProbe(t *testing.T, server string) (addr string) {
	t.Helper()
	return scripted(t, func(n int, nc net.Conn) {
		up := raw(t, server)
		if err := probeTLS(up); err != nil {
			t.Errorf("probe: %v", err)
			return
		}
		go func() { io.Copy(up, nc); up.Close() }()
		io.Copy(nc, up)
	})
}

// TestOpenSSLClient: a session with OpenSSL's client, with a certificate and ALPN, carries a call
// and a reply of several records.
func TestOpenSSLClient(t *testing.T) {
	conformance.Proves(t, "R9289-025", "R9289-027", "R9289-039", "R9289-050")
	s, addr := tlsServer(t, testPKI().server)
	leaf, ca := pemFiles(t, testPKI().mutual.Certificates[0])
	in, out := openssl(t, "s_client", "-connect", afterProbe(t, addr), "-tls1_3", "-ciphersuites", mandatorySuite, "-groups", "P-256", "-alpn", alpnSunRPC, "-CAfile", ca,
		"-verify_return_error", "-verify_hostname", "server.test", "-cert", leaf, "-key", leaf, "-quiet", "-no_ign_eof")
	e := record(4)
	e[markLen+23], e[len(e)-2] = tRead, 0xf0 // READ of 61,440 bytes
	in.Write(e)
	rec, err := newRecordReader(out, tcpWindow, 1<<20).next()
	if err != nil {
		t.Fatalf("reply: %v", err)
	}
	defer rec.Put()
	if got, want := len(rec.B), 24+4+4+0xf000; got != want {
		t.Errorf("a reply of %d bytes, want %d", got, want)
	}
	list, _ := s.Conns()
	if len(list) != 1 || list[0].Channel.Level() != XprtMTLS {
		t.Errorf("connections %+v, want one with mtls", list)
	}
}

// TestOpenSSLServer: a call over a session with OpenSSL's server succeeds, and OpenSSL sees the
// end of the session.
func TestOpenSSLServer(t *testing.T) {
	conformance.Proves(t, "R9289-025", "R9289-039")
	leaf, _ := pemFiles(t, testPKI().server.Certificates[0])
	port := fmt.Sprint(machine.Port(t))
	in, out := openssl(t, "s_server", "-accept", "127.0.0.1:"+port, "-tls1_3", "-ciphersuites", mandatorySuite, "-alpn", alpnSunRPC, "-cert", leaf, "-key", leaf, "-quiet", "-naccept", "1")
	go func() { // each call is answered like the program's ADD
		rd := newRecordReader(out, tcpWindow, 1<<20)
		for {
			rec, err := rd.next()
			if err != nil {
				return
			}
			in.Write(sumReply(rec.B, 7))
			rec.Put()
		}
	}()
	addr := scripted(t, func(n int, nc net.Conn) {
		nc.Write(answerTo(readCall(nc)))
		up := dialSoon(t, "127.0.0.1:"+port)
		defer up.Close()
		go func() { io.Copy(up, nc); up.Close() }()
		io.Copy(nc, up)
	})
	c, err := DialTCP(bg, addr, ClientConfig{TLS: testPKI().client})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer c.Close()
	sum := words{0}
	if err := c.Call(bg, testProc(tAdd), words{3, 4}, sum, nil, 0); err != nil || sum[0] != 7 {
		t.Errorf("ADD = %v, %v; want 7", sum, err)
	}
	if got := c.Channel().TLS.NegotiatedProtocol; got != alpnSunRPC {
		t.Errorf("ALPN %q, want %q", got, alpnSunRPC)
	}
}

// dialSoon dials until a server that starts listens.
func dialSoon(t *testing.T, addr string) net.Conn {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			return nc
		}
		if time.Now().After(end) {
			t.Fatalf("Dial: %v", err)
		}
	}
}
