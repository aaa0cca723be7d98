// Package realm runs a private Kerberos realm for a test: an MIT KDC on a loopback port, with all
// its files in a temporary directory. The machine's own Kerberos files are neither read nor
// written. The package imports none of our code but test/machine.
package realm

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// Debian's enctype names, in the order that the realm prefers.
const (
	AES256SHA1 = "aes256-cts-hmac-sha1-96"
	AES128SHA1 = "aes128-cts-hmac-sha1-96"
	AES128SHA2 = "aes128-cts-hmac-sha256-128"
	AES256SHA2 = "aes256-cts-hmac-sha384-192"
)

// Options are the properties of a realm. The zero value is a realm with all four enctypes, tickets
// of ten hours and the usual clock skew.
type Options struct {
	Name       string            // default EXAMPLE.TEST
	Life       time.Duration     // longest life of a ticket, and of Kinit's
	RenewLife  time.Duration     // longest renewable life; 0: seven days
	Enctypes   []string          // of new keys, sessions and peers, the preferred first
	ClockSkew  time.Duration     // for programs that use Conf; 0: their default
	Domains    map[string]string // further lines of domain_realm
	LibDefault map[string]string // further lines of libdefaults
}

// A Realm is a running KDC with its files.
type Realm struct {
	Name string
	Port int // of the KDC at 127.0.0.1, TCP and UDP

	t    testing.TB
	dir  string
	opts Options
	kdc  *exec.Cmd
	log  string // of the KDC

	mu    sync.Mutex // one kadmin.local at a time, and n
	n     int        // files made so far
	close sync.Once
}

// programs are required on the machine.
var programs = []string{"krb5kdc", "kdb5_util", "kadmin.local", "kinit"}

// program returns a program's path. Debian installs the KDC's programs in /usr/sbin, which a user's
// PATH may lack.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/" + name)
}

// New starts a realm that runs until the test ends. Without the programs of Debian's krb5-kdc,
// krb5-admin-server and krb5-user the test is skipped.
func New(t testing.TB, opts Options) *Realm {
	t.Helper()
	for _, p := range programs {
		if _, err := program(p); err != nil {
			machine.Skip(t, "needs "+p+" (krb5-kdc, krb5-admin-server, krb5-user)")
		}
	}
	if opts.Name == "" {
		opts.Name = "EXAMPLE.TEST"
	}
	if opts.Life == 0 {
		opts.Life = 10 * time.Hour
	}
	if opts.RenewLife == 0 {
		opts.RenewLife = 7 * 24 * time.Hour
	}
	if opts.Enctypes == nil {
		opts.Enctypes = []string{AES256SHA1, AES128SHA1, AES128SHA2, AES256SHA2}
	}
	r := &Realm{Name: opts.Name, Port: machine.Port(t), t: t, dir: t.TempDir(), opts: opts}
	r.log = r.file("kdc.log")
	r.writeConf()
	r.run("kdb5_util", "create", "-s", "-r", r.Name, "-P", "master")
	r.start()
	t.Cleanup(r.Close)
	return r
}

func (r *Realm) file(name string) string { return filepath.Join(r.dir, name) }

// Conf returns the path of the realm's krb5.conf, for KRB5_CONFIG.
func (r *Realm) Conf() string { return r.file("krb5.conf") }

// Dir returns the directory of the realm's files.
func (r *Realm) Dir() string { return r.dir }

// Env returns the process's environment with the realm's variables: krb5.conf, no replay cache on
// disk, and a credential cache if it is not "".
func (r *Realm) Env(ccache string) []string {
	env := append(os.Environ(), "KRB5_CONFIG="+r.Conf(), "KRB5_KDC_PROFILE="+r.file("kdc.conf"), "KRB5RCACHENAME=none:")
	if ccache != "" {
		env = append(env, "KRB5CCNAME="+ccache)
	}
	return env
}

// command returns a command for a program in the realm's environment.
func (r *Realm) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	r.t.Helper()
	path, err := program(name)
	if err != nil {
		r.t.Fatalf("realm: %v", err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = r.Env("")
	return cmd
}

// run runs a program to its end and returns its output. A failure ends the test.
func (r *Realm) run(name string, args ...string) string {
	r.t.Helper()
	return r.input("", name, args...)
}

func (r *Realm) input(stdin, name string, args ...string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := r.command(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// start starts the KDC and waits until it answers connections.
func (r *Realm) start() {
	r.t.Helper()
	r.kdc = r.command(context.Background(), "krb5kdc", "-n", "-r", r.Name, "-P", r.file("kdc.pid"))
	var said strings.Builder
	r.kdc.Stdout, r.kdc.Stderr = &said, &said
	r.kdc.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // an interrupt ends the test first
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the parent-death signal belongs to this thread
		defer runtime.UnlockOSThread()
		err := r.kdc.Start()
		started <- err
		if err == nil {
			ended <- r.kdc.Wait()
		}
	}()
	if err := <-started; err != nil {
		r.t.Fatalf("realm: krb5kdc: %v", err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", r.Addr()); err == nil {
			c.Close()
			return
		}
		select {
		case err := <-ended:
			r.t.Fatalf("realm: krb5kdc: %v\n%s\n%s", err, said.String(), r.Log())
		default:
		}
		if time.Now().After(end) {
			r.t.Fatalf("realm: krb5kdc does not listen\n%s", r.Log())
		}
	}
}

// Addr returns the KDC's address.
func (r *Realm) Addr() string { return fmt.Sprintf("127.0.0.1:%d", r.Port) }

// Log returns the KDC's log.
func (r *Realm) Log() string {
	b, _ := os.ReadFile(r.log)
	return string(b)
}

// Close stops the KDC. Further calls do nothing; the files stay until the test ends.
func (r *Realm) Close() {
	r.close.Do(func() { _ = r.kdc.Process.Kill() })
}
