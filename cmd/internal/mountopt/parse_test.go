// Each name, each contradiction, and the errors.

package mountopt

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

func unchanged(*Options) {}

// sec returns a function that sets the security flavors.
func sec(list string) func(*Options) { return func(o *Options) { o.Security.Sec = list } }

// security has the options of TLS and Kerberos, each with its effect.
var security = map[string]func(*Options){
	"sec=krb5": sec("krb5"), "sec=krb5p:krb5i": sec("krb5p:krb5i"), "sec=krb5:sys:krb5": sec("krb5:sys"), "rootcred=keytab": unchanged,
	"keytab=/etc/k": func(o *Options) { o.Security.Keytab = "/etc/k" }, "rootcred=ccache": func(o *Options) { o.Security.RootCache = true },
	"xprtsec=tls": func(o *Options) { o.Security.XprtSec = transport.XprtTLS }, "xprtsec=none": unchanged,
	"cacert=/ca,xprtsec=tls":          func(o *Options) { o.Security = secure.Settings{XprtSec: transport.XprtTLS, CACert: "/ca"} },
	"crl=/crl,cacert=/ca,xprtsec=tls": func(o *Options) { o.Security = secure.Settings{XprtSec: transport.XprtTLS, CACert: "/ca", CRL: "/crl"} },
	"tlsname=n,xprtsec=tls":           func(o *Options) { o.Security = secure.Settings{XprtSec: transport.XprtTLS, TLSName: "n"} },
	"cert=/c,key=/k,xprtsec=mtls": func(o *Options) {
		o.Security = secure.Settings{XprtSec: transport.XprtMTLS, Cert: "/c", Key: "/k"}
	},
	`key="/k,1",cert=/c,xprtsec=mtls`: func(o *Options) {
		o.Security = secure.Settings{XprtSec: transport.XprtMTLS, Cert: "/c", Key: "/k,1"}
	},
	"xprtsec=tls,cacert=/ca,crl=/crl,tlsname=n": func(o *Options) {
		o.Security = secure.Settings{XprtSec: transport.XprtTLS, CACert: "/ca", CRL: "/crl", TLSName: "n"}
	},
	"xprtsec=mtls,cert=/c,key=/k": func(o *Options) {
		o.Security = secure.Settings{XprtSec: transport.XprtMTLS, Cert: "/c", Key: "/k"}
	},
}

// edge has values at limits, synonyms, and orders of options, each with its effect.
var edge = map[string]func(*Options){
	"ro,nosuid,nodev,noexec,defaults": func(o *Options) { o.ReadOnly, o.NoSuid, o.NoDev, o.NoExec = true, true, true, true },
	"defaults,ro":                     func(o *Options) { o.ReadOnly = true },
	"proto=tcp,proto=tcp6,tcp":        func(o *Options) { o.Proto = TCP }, "rdma,proto=rdma6": func(o *Options) { o.Proto = RDMA },
	"lookupcache=pos,lookupcache=positive": func(o *Options) { o.Lookup = LookupPositive }, "mounthost=[::1],mountaddr=::1": func(o *Options) { o.MountHost = "::1" },
	"rsize=1024": func(o *Options) { o.ReadSize = 4096 }, "rsize=8191": func(o *Options) { o.ReadSize = 4096 }, "rsize=8192": func(o *Options) { o.ReadSize = 8192 },
	"wsize=1048575": func(o *Options) { o.WriteSize = 1<<20 - 4096 }, "wsize=2147483647": func(o *Options) { o.WriteSize = 1 << 20 },
	"timeo=1": func(o *Options) { o.Timeo = time.Second / 10 }, "timeo=6000": func(o *Options) { o.Timeo = 10 * time.Minute }, "retrans=0": func(o *Options) { o.Retrans = 0 },
	"retrans=1000": func(o *Options) { o.Retrans = 1000 }, "retry=1048576": func(o *Options) { o.Retry = 1 << 20 * time.Minute }, "port=65535": func(o *Options) { o.Port = 65535 },
	"actimeo=1073741824": func(o *Options) { setActimeo(o, 1<<30*time.Second) }, "uid=4294967294": func(o *Options) { o.UID = ID{true, 1<<32 - 2} },
	"port=08": func(o *Options) { o.Port = 8 }, `port="80"`: func(o *Options) { o.Port = 80 }, " soft , ro ,,": func(o *Options) { o.Recovery, o.ReadOnly = Soft, true },
	"comment=\"a,soft\",ro": func(o *Options) { o.ReadOnly = true }, "x-a=b=c,X-b,ro": func(o *Options) { o.ReadOnly = true }, "soft,soft": func(o *Options) { o.Recovery = Soft },
}

// lesser has the effects of rare options.
var lesser = map[string]func(*Options){
	"mountproto=udp": unchanged, "mountproto=udp6": unchanged, "mounthost=m": func(o *Options) { o.MountHost = "m" }, "mountaddr=[::1]": func(o *Options) { o.MountHost = "::1" },
	"mounthost=m,mountaddr=m": func(o *Options) { o.MountHost = "m" }, "sec=krb5:sys": sec("krb5:sys"), "sec=krb5:sys,uid=5": func(o *Options) { sec("krb5:sys")(o); o.UID = ID{true, 5} },
	"write=lazy": unchanged, "write=eager": unchanged, "write=wait": func(o *Options) { o.Sync = true }, "sync,write=lazy": func(o *Options) { o.Sync = true },
	"nosymfollow": func(o *Options) { o.NoSymfollow = true }, "symfollow": unchanged, "nosymfollow,symfollow": unchanged,
	`context="a:b:c:s0:c1,c2"`: func(o *Options) { o.Contexts = `context="a:b:c:s0:c1,c2"` },
	"fscontext=a,defcontext=b": func(o *Options) { o.Contexts = `fscontext="a",defcontext="b"` },
	"defcontext=b":             func(o *Options) { o.Contexts = `defcontext="b"` }, "rootcontext=@r": func(o *Options) { o.Contexts = `rootcontext="@r"` },
	"fsc": unchanged, "nofsc": unchanged, "softreval": unchanged, "nosoftreval": unchanged, "namlen=255": unchanged, "addr=10.0.0.1": unchanged, "max_connect=16": unchanged,
	"trunkdiscovery": unchanged, "notrunkdiscovery": unchanged, "clientaddr=10.0.0.1": unchanged, "migration": unchanged, "nomigration": unchanged,
	"lazytime": unchanged, "nolazytime": unchanged, "dirsync": unchanged, "iversion": unchanged, "noiversion": unchanged, "mand": unchanged, "nomand": unchanged, "sloppy": unchanged, "nostrictatime": unchanged,
	"provider=roce": func(o *Options) {
		o.Provider, o.Warning = nfsclient.RoCE, "option provider is now called rdma"
	},
	"bsize=4096": unchanged, "rdma,rdma=auto,proto=rdma": func(o *Options) { o.Proto = RDMA },
	"zzz=1,sloppy,soft": func(o *Options) { o.Recovery = Soft },
}

// Every option in the table is parsed and changes exactly its own fields.
func TestOptions(t *testing.T) {
	type change = func(*Options)
	none := unchanged
	cases := map[string]change{
		"proto=rdma": func(o *Options) { o.Proto = RDMA }, "proto=tcp": func(o *Options) { o.Proto = TCP },
		"proto=auto": func(o *Options) { o.Proto = Auto }, "rdma": func(o *Options) { o.Proto = RDMA }, "tcp": func(o *Options) { o.Proto = TCP },
		"proto=tcp6": func(o *Options) { o.Proto = TCP }, "proto=rdma6": func(o *Options) { o.Proto = RDMA },
		"port=20050": func(o *Options) { o.Port = 20050 }, "port=0": none, "mountport=635": func(o *Options) { o.MountPort = 635 }, "mountproto=tcp": none,
		"nconnect=4": func(o *Options) { o.NConnect = 4 }, "crc=on": none,
		"rdma=iwarp": func(o *Options) { o.Provider = nfsclient.IWARP }, "rdma=roce,proto=auto": func(o *Options) { o.Proto, o.Provider = Auto, nfsclient.RoCE }, "rdma=auto": none,
		"crc=auto": func(o *Options) { o.CRC = rnic.CRCAuto }, "crc=off": func(o *Options) { o.CRC = rnic.CRCOff },
		"resvport": none, "noresvport": func(o *Options) { o.AnyPort = true },
		"hard": none, "soft": func(o *Options) { o.Recovery = Soft }, "softerr": func(o *Options) { o.Recovery = SoftErr },
		"timeo=15": func(o *Options) { o.Timeo = 1500 * time.Millisecond }, "retrans=5": func(o *Options) { o.Retrans = 5 },
		"intr": none, "nointr": none, "fg": none, "bg": func(o *Options) { o.Background = true },
		"retry=3": func(o *Options) { o.Retry = 3 * time.Minute }, "retry=0": func(o *Options) { o.Retry = 0 },
		"rsize=1048576": func(o *Options) { o.ReadSize = 1 << 20 }, "rsize=5000": func(o *Options) { o.ReadSize = 4096 }, "rsize=1": func(o *Options) { o.ReadSize = 4096 },
		"wsize=99999999": func(o *Options) { o.WriteSize = 1 << 20 }, "wsize=65536": func(o *Options) { o.WriteSize = 65536 },
		"memory=64M":   func(o *Options) { o.Memory = 64 << 20 },
		"acregmin=1":   func(o *Options) { o.AttrFileMin = time.Second },
		"acregmin=100": func(o *Options) { o.AttrFileMin, o.AttrFileMax = 100*time.Second, 100*time.Second },
		"acregmax=90":  func(o *Options) { o.AttrFileMax = 90 * time.Second },
		"acregmax=1":   func(o *Options) { o.AttrFileMin, o.AttrFileMax = time.Second, time.Second },
		"acdirmin=40":  func(o *Options) { o.AttrDirMin = 40 * time.Second }, "acdirmax=5": func(o *Options) { o.AttrDirMin, o.AttrDirMax = 5*time.Second, 5*time.Second },
		"actimeo=7": func(o *Options) { setActimeo(o, 7*time.Second) }, "ac": none,
		"noac": func(o *Options) { o.NoAttrCache, o.Sync = true, true; setActimeo(o, 0) },
		"cto":  none, "nocto": func(o *Options) { o.NoCTO = true }, "lookupcache=all": none,
		"lookupcache=pos": func(o *Options) { o.Lookup = LookupPositive }, "lookupcache=positive": func(o *Options) { o.Lookup = LookupPositive },
		"lookupcache=none": func(o *Options) { o.Lookup = LookupNone },
		"rdirplus":         none, "nordirplus": func(o *Options) { o.NoReaddirPlus = true },
		"acl": none, "noacl": func(o *Options) { o.NoACL = true },
		"lock": none, "local_lock=none": none, "local_lock=posix": func(o *Options) { o.LocalPosix = true },
		"nolock":           func(o *Options) { o.LocalPosix, o.LocalFlock = true, true },
		"local_lock=flock": func(o *Options) { o.LocalFlock = true },
		"local_lock=all":   func(o *Options) { o.LocalPosix, o.LocalFlock = true, true },
		"nlmport=4045":     func(o *Options) { o.LockPort = 4045 },
		"sync":             func(o *Options) { o.Sync = true }, "async": none, "sec=sys": sec("sys"),
		"uid=0": func(o *Options) { o.UID = ID{true, 0} }, "gid=1000": func(o *Options) { o.GID = ID{true, 1000} },
		"vers=3": none, "nfsvers=3": none, "v3": none, "mountvers=3": none, "sharecache": none, "nosharecache": none,
		"allow_other": func(o *Options) { o.AllowOther = true }, "noallow_other": func(o *Options) { o.OnlyMe = true },
		"default_permissions": func(o *Options) { o.DefaultPermissions = true },
		"ro":                  func(o *Options) { o.ReadOnly = true }, "rw": none, "nosuid": func(o *Options) { o.NoSuid = true }, "suid": none,
		"nodev": func(o *Options) { o.NoDev = true }, "dev": none, "noexec": func(o *Options) { o.NoExec = true }, "exec": none,
		"noatime": func(o *Options) { o.NoAtime = true }, "atime": none, "relatime": none, "norelatime": none, "strictatime": none, "noatime,strictatime": none,
		"nodiratime": none, "diratime": none, "defaults": none,
		"user":     func(o *Options) { o.NoSuid, o.NoDev, o.NoExec = true, true, true },
		"user=joe": func(o *Options) { o.NoSuid, o.NoDev, o.NoExec = true, true, true },
		"users":    func(o *Options) { o.NoSuid, o.NoDev, o.NoExec = true, true, true },
		"owner":    func(o *Options) { o.NoSuid, o.NoDev = true, true }, "group": func(o *Options) { o.NoSuid, o.NoDev = true, true },
		"nouser": none, "nousers": none, "noowner": none, "nogroup": none, "auto": none, "noauto": none, "nofail": none, "_netdev": none,
		"silent": none, "loud": none, "comment=x y": none, "x-systemd.automount": none, "x-gvfs-name=a b": none, "X-mount.mkdir": none, "": none,
		"local_lock=\"all\"": func(o *Options) { o.LocalPosix, o.LocalFlock = true, true }, `x-a="b,soft"`: none, "user,exec": func(o *Options) { o.NoSuid, o.NoDev = true, true },
		"ro,rw": none, "rw,ro": func(o *Options) { o.ReadOnly = true },
		"tcp,proto=tcp": func(o *Options) { o.Proto = TCP }, "vers=3,v3,nfsvers=3": none, "noac,actimeo=0": func(o *Options) { o.NoAttrCache, o.Sync = true, true; setActimeo(o, 0) },
		"actimeo=5,acdirmax=5": func(o *Options) { setActimeo(o, 5*time.Second) }, "nconnect=64": func(o *Options) { o.NConnect = 64 },
		"acregmin=9,acregmax=9": func(o *Options) { o.AttrFileMin, o.AttrFileMax = 9*time.Second, 9*time.Second },
		"memory=16M":            func(o *Options) { o.Memory = 16 << 20 }, "lock,local_lock=posix": func(o *Options) { o.LocalPosix = true },
		"nolock,local_lock=all": func(o *Options) { o.LocalPosix, o.LocalFlock = true, true },
		"noac,sync":             func(o *Options) { o.NoAttrCache, o.Sync = true, true; setActimeo(o, 0) },
	}
	maps.Copy(cases, lesser)
	maps.Copy(cases, security)
	maps.Copy(cases, edge)
	seen := make(map[string]bool)
	for in, change := range cases {
		want := defaults()
		change(want)
		got, err := Parse([]string{in}, false)
		if err != nil || *got != *want {
			t.Errorf("%q: %+v, %v\nwant %+v", in, got, err, want)
		}
		name, _, _ := strings.Cut(in, "=")
		seen[name] = true
	}
	for _, x := range options {
		if !seen[x.name] && x.kind != refused {
			t.Errorf("option %s has no case", x.name)
		}
	}
}

// timeo × retrans limits a call of a soft mount, and not of a hard one.
func TestClientOptions(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"": -1, "timeo=10": -1, "soft": 2 * time.Minute, "soft,timeo=10": 2 * time.Second, "softerr,timeo=50,retrans=3": 15 * time.Second, "soft,timeo=5,retrans=0": time.Second / 2,
	} {
		o, err := Parse([]string{in}, false)
		if err != nil {
			t.Fatalf("Parse: %v", err)
		}
		s, err := o.Source("h:/x")
		if err != nil {
			t.Fatalf("Source: %v", err)
		}
		c := o.Client(s.Targets[0])
		if c.CallTimeout != want {
			t.Errorf("%q: a call ends after %v, want %v", in, c.CallTimeout, want)
		}
		if c.RetryTimeout != o.Timeo {
			t.Errorf("%q: a call is sent again after %v, want %v", in, c.RetryTimeout, o.Timeo)
		}
	}
}

// TestOwner: a mount as another user does not have the groups of the user who mounts.
func TestOwner(t *testing.T) {
	me := transport.Cred{UID: 5, GID: 6, GIDs: []uint32{7, 8}}
	for in, want := range map[string]transport.Cred{
		"uid=5":       me,
		"uid=9":       {UID: 9, GID: 6},
		"gid=9":       {UID: 5, GID: 9, GIDs: me.GIDs},
		"uid=0,gid=0": {},
	} {
		o, err := Parse([]string{in}, false)
		if err != nil {
			t.Fatalf("Parse: %v", err)
		}
		if got := o.withOwner(me); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", in, got, want)
		}
		s, _ := o.Source("h:/x")
		if c := o.Client(s.Targets[0]); c.Cred == nil {
			t.Errorf("%s: no credential, want one", in)
		}
	}
}

// TestHelpIsWrapped: lines have as many names and words as fit.
func TestHelpIsWrapped(t *testing.T) {
	a, b, c := strings.Repeat("a", 40), strings.Repeat("b", helpWidth-helpIndent-41), strings.Repeat("c", 9)
	var got strings.Builder
	long := strings.Repeat("d", helpWidth-helpColumn-len("refused: "))
	appendHelp(&got, []string{a, b, c}, refused, long+" e")
	want := fmt.Sprintf("    %s %s\n    %-21s refused: %s\n%26se\n", a, b, c, long, "")
	if got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
	got.Reset()
	appendHelp(&got, []string{a, b + "b"}, implemented, "x")
	if want := fmt.Sprintf("    %s\n    %s\n%26sx\n", a, b+"b", ""); got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
}

// A mount source is accepted in the forms of mount(8) and of the other commands.
func TestSources(t *testing.T) {
	for in, want := range map[string]string{
		"h:/x":                             "h:/x rdma h:20049",
		"h:/":                              "h:/ rdma h:20049",
		"h:/x/y/":                          "h:/x/y rdma h:20049",
		"[fe80::1%eth0]:/x":                "[fe80::1%eth0]:/x rdma [fe80::1%eth0]:20049",
		"::1:/x":                           "[::1]:/x rdma [::1]:20049",
		"nfs://h/x":                        "h:/x tcp h:2049",
		"nfsrdma://[::1]:99/x":             "[::1]:/x rdma [::1]:99",
		"h:/x proto=tcp":                   "h:/x tcp h:2049",
		"h:/x tcp,port=77":                 "h:/x tcp h:77",
		"h:/x proto=auto":                  "h:/x rdma h:20049 tcp h:2049",
		"nfsrdma://h:88/x port=88":         "h:/x rdma h:88",
		"nfsrdma://h/a%20b%23":             "h:/a b# rdma h:20049",
		"h:/x port=1,proto=auto":           "! a port and option proto=auto contradict each other",
		"nfs://h/x proto=rdma":             "! nfs://h/x is over TCP, which contradicts option proto=rdma",
		"nfsrdma://h:88/x port=89":         "! option port=89 and the port of nfsrdma://h:88/x contradict each other",
		"a,b:/x":                           "a,b:/x rdma a:20049,b:20049",
		"nfs://a,[::1]:7/x/":               "a,[::1]:7:/x tcp a:2049,[::1]:7",
		"a,b:/x tcp,port=77":               "a,b:/x tcp a:77,b:77",
		"a:88,[fe80::1]:99,c:/x ":          "a:88,[fe80::1]:99,c:/x rdma a:88,[fe80::1]:99,c:20049",
		"a,b,c:/x proto=auto":              "a,b,c:/x rdma a:20049,b:20049,c:20049 tcp a:2049,b:2049,c:2049",
		"a,b:88:/x port=89":                "! option port=89 and the port of a,b:88:/x contradict each other",
		"a,b:88:/x proto=auto":             "! a port and option proto=auto contradict",
		"a,,b:/x":                          `! target "a,,b:/x": no host at a comma`,
		"/x":                               "! /x: not an export: write SERVER:/export",
		"h":                                "! h: not an export",
		"http://h/x":                       `! target "http://h/x": scheme`,
		"nfsrdma://h:88/x proto=auto":      "! a port and option proto=auto contradict",
		"nfsrdma://h/x proto=tcp,port=100": "h:/x tcp h:100",
	} {
		spec, list, _ := strings.Cut(in, " ")
		o, err := Parse([]string{list}, false)
		if err != nil {
			t.Fatalf("Parse: %v", err)
		}
		s, err := o.Source(spec)
		got := s.Name
		for _, x := range s.Targets {
			got += " " + x.Transport.String() + " " + x.Addr()
		}
		if err != nil {
			got = "! " + err.Error()
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// Help has each option with an effect, in terminal-width lines.
func TestHelp(t *testing.T) {
	help := Help()
	for _, name := range names() {
		if !strings.Contains(help, "\n    "+name) && !strings.HasPrefix(help, "    "+name) {
			t.Errorf("no help on %s", name)
		}
	}
	if n := len(Completions()); n != len(names()) {
		t.Errorf("%d completions of %d names", n, len(names()))
	}
	for _, begin := range []string{"port=\t", "hard\t"} {
		if !slices.ContainsFunc(Completions(), func(s string) bool { return strings.HasPrefix(s, begin) }) {
			t.Errorf("no completion begins with %q", begin)
		}
	}
}

// Each accepted or refused option is in the help text, which the manual pages contain, and the help
// text has no other option.
func TestEachOptionIsDocumented(t *testing.T) {
	words := strings.Fields(Help())
	documented := make(map[string]int)
	for _, x := range options {
		if x.kind != renamed && !slices.Contains(words, x.usage()) {
			t.Errorf("the help text lacks %s", x.usage())
		}
		if x.help == "" {
			t.Errorf("option %s has no help", x.name)
		}
		if documented[x.name]++; documented[x.name] > 1 {
			t.Errorf("option %s is in the table %d times", x.name, documented[x.name])
		}
	}
}

// Each option in nfs(5) and mount(8) is in the table: implemented, ignored with a reason, or
// refused with an alternative.
func TestOptionsOfTheManualPages(t *testing.T) {
	text, err := os.ReadFile("testdata/options")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	kinds := map[kind]int{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line, "=")
		i := slices.IndexFunc(options, func(x option) bool { return x.name == name })
		if i < 0 {
			t.Errorf("%s is not in the table", name)
			continue
		}
		x := &options[i]
		kinds[x.kind]++
		_, err := Parse([]string{line}, false)
		if want := x.kind == refused; (err != nil) != want {
			t.Errorf("%s: %v; refused by the table: %v", line, err, want)
		}
		switch {
		case x.kind == ignored && !strings.HasPrefix(x.help, "accepted: "):
			t.Errorf("%s is ignored without a reason: %s", name, x.help)
		case x.kind == refused && !strings.HasSuffix(err.Error(), x.help):
			t.Errorf("%s: %v, want %s", name, err, x.help)
		}
	}
	for k, least := range map[kind]int{implemented: 30, ignored: 30, refused: 3} {
		if kinds[k] < least {
			t.Errorf("%d options of kind %d, want at least %d", kinds[k], k, least)
		}
	}
}

// The mounts in the documents work, because Parse accepts the options in each command line and
// fstab line.
func TestOptionsOfTheDocuments(t *testing.T) {
	lists := 0
	docs, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for _, doc := range append(docs, "../../../README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			i := slices.Index(f, "-o") + 1
			switch {
			case len(f) == 6 && f[2] == "nfsrdma": // a line of fstab
				i = 3
			case i == 0 || i == len(f) || !strings.Contains(line, "nfsrdma mount"):
				continue
			}
			lists++
			if _, err := Parse([]string{strings.Trim(f[i], "`")}, false); err != nil {
				t.Errorf("%s: %s: %v", doc, line, err)
			}
		}
	}
	if lists < 4 {
		t.Errorf("%d lists of options found", lists)
	}
}
