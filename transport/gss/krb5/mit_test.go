// Contexts with MIT's gss-client and gss-server: each side checks the other's tokens.

package krb5

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/machine/realm"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// Flags in the frames between gss-client and gss-server.
const (
	frameNoop        = 1 << 0
	frameContext     = 1 << 1
	frameData        = 1 << 2
	frameMIC         = 1 << 3
	frameContextNext = 1 << 4
	frameWrapped     = 1 << 5
	frameEncrypted   = 1 << 6
	frameSendMIC     = 1 << 7
)

func sendFrame(w io.Writer, flags byte, token []byte) error {
	b := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(token)))
	_, err := w.Write(append(b, token...))
	return err
}

func receiveFrame(r io.Reader) (flags byte, token []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	token = make([]byte, binary.BigEndian.Uint32(head[1:])&0xffffff)
	_, err = io.ReadFull(r, token)
	return head[0], token, err
}

// aRealm is a realm with one enctype, a user and the service nfs/localhost.
type aRealm struct {
	*realm.Realm
	conf   *Config
	keytab string
	ccache string
}

func newRealm(t *testing.T, enctypes ...string) aRealm {
	t.Helper()
	r := aRealm{Realm: realm.New(t, realm.Options{Enctypes: enctypes})}
	r.AddPrincipal("alice", "secret")
	r.AddPrincipal("nfs/localhost", "")
	r.keytab = r.Keytab("nfs/localhost")
	r.ccache = r.Kinit("alice", "secret")
	conf, err := LoadConfig(r.Conf())
	must.Succeed(t, err)
	r.conf = conf
	return r
}

// eachEnctype runs a test in a realm of each enctype.
func eachEnctype(t *testing.T, f func(t *testing.T, r aRealm)) {
	t.Helper()
	for _, et := range enctypes {
		t.Run(et.name, func(t *testing.T) {
			t.Parallel()
			f(t, newRealm(t, et.name))
		})
	}
}

func (r aRealm) acceptor(t *testing.T) *Acceptor {
	t.Helper()
	a, err := NewAcceptor(AcceptorOptions{Keytab: r.keytab})
	must.Succeed(t, err)
	return a
}

func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		machine.Skip(t, "needs "+program+" (krb5-gss-samples)")
	}
	return path
}

// TestServerOfMIT: MIT's gss-server accepts our initiator's context and Wrap tokens, sealed and
// clear, and we accept its MIC.
func TestServerOfMIT(t *testing.T) {
	program := need(t, "gss-server")
	eachEnctype(t, func(t *testing.T, r aRealm) {
		port := machine.Port(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		server := exec.CommandContext(ctx, program, "-port", fmt.Sprint(port), "-verbose", "-once", "-keytab", r.keytab, "nfs@localhost")
		server.Env = r.Env("")
		var said bytes.Buffer
		server.Stdout, server.Stderr = &said, &said
		must.Succeed(t, server.Start())
		var c net.Conn
		must.Become(t, "gss-server listens", func() (ok bool) {
			var err error
			c, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			return err == nil
		})
		defer c.Close()
		talkToServer(t, r, c)
		if err := server.Wait(); err != nil || !strings.Contains(said.String(), "alice@EXAMPLE.TEST") {
			t.Errorf("gss-server: %v\n%s", err, said.String())
		}
		if n := strings.Count(said.String(), "Received message: \"hello"); n != 3 {
			t.Errorf("gss-server has opened %d of 3 messages:\n%s", n, said.String())
		}
		if strings.Contains(said.String(), "not encrypted") {
			t.Errorf("a sealed message is not encrypted:\n%s", said.String())
		}
	})
}

func talkToServer(t *testing.T, r aRealm, c net.Conn) {
	t.Helper()
	i := r.conf.Cache("FILE:"+r.ccache, -1).Initiator("nfs", "localhost")
	token, err := i.Start(t.Context())
	must.Succeed(t, err)
	must.Succeed(t, sendFrame(c, frameNoop|frameContextNext, nil), sendFrame(c, frameContext, token))
	flags, reply, err := receiveFrame(c)
	if err != nil || flags != frameContext {
		t.Fatalf("gss-server answers flags %#x, %v", flags, err)
	}
	got, err := i.Finish(reply)
	must.Succeed(t, err)
	k := got.(*Context)
	if p := k.Principal(); p != "nfs/localhost@EXAMPLE.TEST" {
		t.Errorf("the acceptor is %s", p)
	}
	message := []byte("hello, MIT")
	for _, token := range [][]byte{k.Wrap(nil, message[:3], message[3:]), k.Wrap(nil, message), k.WrapClear(nil, message)} {
		flags := byte(frameData | frameWrapped | frameSendMIC)
		if token[2]&flagSealed != 0 {
			flags |= frameEncrypted
		}
		must.Succeed(t, sendFrame(c, flags, token))
		flags, mic, err := receiveFrame(c)
		if err != nil || flags != frameMIC {
			t.Fatalf("gss-server answers a message with flags %#x, %v", flags, err)
		}
		if err := k.VerifyMIC(mic, message[:5], message[5:]); err != nil {
			t.Errorf("MIC of gss-server: %v", err)
		}
	}
	must.Succeed(t, sendFrame(c, frameNoop, nil))
}

// TestClientOfMIT: MIT's gss-client accepts our acceptor's AP-REP and MIC, and we accept its Wrap
// tokens, sealed and clear.
func TestClientOfMIT(t *testing.T) {
	program := need(t, "gss-client")
	eachEnctype(t, func(t *testing.T, r aRealm) {
		a := r.acceptor(t)
		for _, option := range []string{"-mcount", "-nx"} { // -nx: not encrypted
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must.Succeed(t, err)
			defer l.Close()
			served := make(chan error, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					served <- err
					return
				}
				defer c.Close()
				served <- serveClient(a, c, option != "-nx")
			}()
			args := []string{"-port", fmt.Sprint(l.Addr().(*net.TCPAddr).Port), "-mcount", "3", "localhost", "nfs@localhost", "hello, Go"}
			if option == "-nx" {
				args = append([]string{option}, args...)
			}
			client := exec.CommandContext(t.Context(), program, args...)
			client.Env = r.Env("FILE:" + r.ccache)
			out, err := client.CombinedOutput()
			if n := strings.Count(string(out), "Signature verified"); err != nil || n != 3 {
				t.Errorf("gss-client %s: %v, %d of 3 signatures verified\n%s", option, err, n, out)
			}
			if err := <-served; err != nil {
				t.Errorf("acceptor for gss-client %s: %v", option, err)
			}
		}
	})
}

// serveClient does the work of gss-server, with our acceptor.
func serveClient(a *Acceptor, c net.Conn, sealed bool) error {
	if flags, _, err := receiveFrame(c); err != nil || flags != frameNoop|frameContextNext {
		return fmt.Errorf("gss-client begins with flags %#x, %v", flags, err)
	}
	_, token, err := receiveFrame(c)
	if err != nil {
		return err
	}
	got, reply, err := a.Accept(token)
	if err != nil {
		return err
	}
	k := got.(*Context)
	if p := k.Principal(); p != "alice@EXAMPLE.TEST" {
		return fmt.Errorf("the initiator is %s", p)
	}
	if err := sendFrame(c, frameContext, reply); err != nil {
		return err
	}
	for {
		flags, token, err := receiveFrame(c)
		if err != nil || flags&frameNoop != 0 {
			return err
		}
		plain, got, err := k.UnwrapAny(token)
		if err != nil || got != sealed || string(plain) != "hello, Go" {
			return fmt.Errorf("message %q, sealed %v, want %v: %v", plain, got, sealed, err)
		}
		if err := sendFrame(c, frameMIC, k.MIC(nil, plain)); err != nil {
			return err
		}
	}
}
