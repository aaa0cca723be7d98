// Any text as an option list, and the properties of all lists.

package mountopt

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// formatted returns an option list equivalent to o, without defaults.
func formatted(o *Options) string {
	d, words := defaults(), []string{}
	add := func(differs bool, format string, args ...any) {
		if differs {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(o.Proto != Default, "proto=%v", o.Proto)
	add(o.Port != 0, "port=%d", o.Port)
	add(o.MountPort != 0, "mountport=%d", o.MountPort)
	add(o.LockPort != 0, "nlmport=%d", o.LockPort)
	add(o.MountHost != "", "mounthost=%s", o.MountHost)
	add(o.NConnect != d.NConnect, "nconnect=%d", o.NConnect)
	add(o.Provider != d.Provider, "rdma=%s", map[nfsclient.Provider]string{nfsclient.IWARP: "iwarp", nfsclient.RoCE: "roce"}[o.Provider])
	add(o.CRC != d.CRC, "crc=%s", map[rnic.CRCMode]string{rnic.CRCAuto: "auto", rnic.CRCOff: "off", rnic.CRCStrict: "strict"}[o.CRC])
	add(o.AnyPort, "noresvport")
	sec := &o.Security
	add(sec.Sec != "", "sec=%s", sec.Sec)
	add(sec.Keytab != "", `keytab="%s"`, sec.Keytab)
	add(sec.RootCache, "rootcred=ccache")
	add(sec.XprtSec != 0, "xprtsec=%v", sec.XprtSec)
	for name, v := range map[string]string{"cacert": sec.CACert, "cert": sec.Cert, "key": sec.Key, "crl": sec.CRL, "tlsname": sec.TLSName} {
		add(v != "", `%s="%s"`, name, v)
	}
	add(o.Recovery != Hard, "%s", [...]string{Soft: "soft", SoftErr: "softerr"}[o.Recovery])
	add(o.Timeo != 0, "timeo=%d", o.Timeo/(time.Second/10))
	add(o.Retrans != d.Retrans, "retrans=%d", o.Retrans)
	add(o.Background, "bg")
	add(o.Retry >= 0, "retry=%d", o.Retry/time.Minute)
	add(o.ReadSize != 0, "rsize=%d", o.ReadSize)
	add(o.WriteSize != 0, "wsize=%d", o.WriteSize)
	add(o.Memory != 0, "memory=%d", o.Memory)
	add(!o.NoAttrCache, "acregmin=%d,acregmax=%d,acdirmin=%d,acdirmax=%d", o.AttrFileMin/time.Second, o.AttrFileMax/time.Second, o.AttrDirMin/time.Second, o.AttrDirMax/time.Second)
	add(o.LocalPosix != o.LocalFlock, "local_lock=%s", map[bool]string{true: "posix", false: "flock"}[o.LocalPosix])
	add(o.Lookup != LookupAll, "lookupcache=%s", [...]string{LookupPositive: "pos", LookupNone: "none"}[o.Lookup])
	add(o.UID.Set, "uid=%d", o.UID.Value)
	add(o.GID.Set, "gid=%d", o.GID.Value)
	add(o.Contexts != "", "%s", o.Contexts)
	for _, flag := range []struct {
		on   bool
		word string
	}{
		{o.NoAttrCache, "noac"}, {o.NoCTO, "nocto"}, {o.Sync, "sync"}, {o.NoReaddirPlus, "nordirplus"}, {o.NoACL, "noacl"}, {o.LocalPosix && o.LocalFlock, "nolock"},
		{o.AllowOther, "allow_other"}, {o.OnlyMe, "noallow_other"}, {o.DefaultPermissions, "default_permissions"}, {o.ReadOnly, "ro"}, {o.NoSuid, "nosuid"},
		{o.NoDev, "nodev"}, {o.NoExec, "noexec"}, {o.NoAtime, "noatime"}, {o.NoSymfollow, "nosymfollow"},
	} {
		add(flag.on, "%s", flag.word)
	}
	return strings.Join(words, ",")
}

// wantSame checks that a list means o.
func wantSame(t *testing.T, from, list string, o *Options) {
	t.Helper()
	got, err := Parse([]string{list}, false)
	if err != nil {
		t.Fatalf("%q was accepted, %q is not: %v", from, list, err)
	}
	want := *o
	want.Warning, got.Warning = "", "" // depends on how the list was written
	if *got != want {
		t.Fatalf("%q is %+v\nand %q is %+v", from, want, list, *got)
	}
}

// FuzzParse: a list gives one clear error, or options that stay the same when they are formatted
// again, or when foreign options are added.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "proto=tcp,port=77", "rdma=roce,soft,timeo=15,retrans=0", "noac,sync", "actimeo=5,acdirmax=5", "acregmin=100", `context="a:b:c,d",fscontext=e`,
		"nolock,local_lock=all", "user,exec,suid", "ro,rw,defaults", "uid=0,gid=4294967294", "memory=2G,rsize=1,wsize=99999999", "provider=iwarp", "mounthost=[::1]", `x-a="b,c",bg,retry=3`, "sloppy,zzz",
		"sec=krb5:sys,uid=3", "sec=krb5p,rootcred=ccache", `xprtsec=mtls,cert="/a,b",key="/ k"`, "xprtsec=tls,cacert=/x,tlsname=n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		o, err := Parse([]string{list}, false)
		if err != nil {
			if _, err := Parse([]string{list + ",ro"}, false); err == nil {
				t.Fatalf("%q is an error, and not with ro after it", list)
			}
			return
		}
		wantSame(t, list, formatted(o), o)
		wantSame(t, list, list+",_netdev,x-systemd.automount", o)
		wantSame(t, list, "nofail,comment=\"a,soft\","+list, o)
	})
}

// FuzzSource: no text breaks the parser of mount sources, and the resulting name mounts the same
// export again.
func FuzzSource(f *testing.F) {
	for _, seed := range []string{"h:/x", "[fe80::1%eth0]:/x", "nfs://a,[::1]:7/x/", "nfsrdma://h/a%20b%23", "a:88,[fe80::1]:99,c:/x", "::1:/x", "h:/../x", "h:/a:/b", "h:", "/x"} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, spec string, tcp bool) {
		o := defaults()
		if tcp {
			o.Proto = TCP
		}
		s, err := o.Source(spec)
		if err != nil {
			return
		}
		again, err := o.Source(s.Name)
		if err != nil {
			t.Fatalf("%q was accepted, %q is not: %v", spec, s.Name, err)
		}
		if again.Name != s.Name {
			t.Fatalf("%q has the name %q, and that has %q", spec, s.Name, again.Name)
		}
	})
}

// randomList returns some options of the table and of the cases of other tests.
func randomList(r *rand.Rand) []string {
	values := map[string][]string{"proto": {"tcp", "rdma", "auto", "tcp6"}, "rdma": {"auto", "iwarp", "roce"}, "port": {"0", "7", "8"}, "mounthost": {"a", "b"}, "mountaddr": {"a"},
		"acregmin": {"1", "5", "99"}, "acregmax": {"1", "5", "99"}, "acdirmin": {"1", "5", "99"}, "acdirmax": {"1", "5", "99"}, "actimeo": {"0", "5"}, "local_lock": {"all", "none", "posix"},
		"vers": {"3"}, "nfsvers": {"3"}, "write": {"wait", "lazy"}, "crc": {"on", "off"}, "timeo": {"5", "05"}, "lookupcache": {"pos", "positive", "all"}, "memory": {"64M"}, "context": {"a"}}
	var list []string
	for range 1 + r.IntN(4) {
		x := &options[r.IntN(len(options))]
		if x.kind == refused || x.kind == renamed {
			continue
		}
		word := x.name
		if v := values[x.name]; len(v) > 0 {
			word += "=" + v[r.IntN(len(v))]
		} else if x.arg != "" && !strings.HasPrefix(x.arg, "[") {
			continue
		}
		list = append(list, word)
	}
	return list
}

// replaces reports whether an option belongs to mount(8), where the last one counts.
func replaces(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	for i := range options {
		if options[i].name == name {
			return strings.HasPrefix(options[i].group, "+")
		}
	}
	return false
}

// TestOrderMattersForMountOptionsOnly: options of nfs(5) have the same meaning in every order, or
// are an error in every order. They do not change the effect of mount(8) options.
func TestOrderMattersForMountOptionsOnly(t *testing.T) {
	accepted := 0
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 0))
		list := randomList(r)
		var theirs, others []string
		for _, word := range list {
			if replaces(word) {
				theirs = append(theirs, word)
			} else {
				others = append(others, word)
			}
		}
		r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		moved := append(others, theirs...)
		a, errA := Parse(list, false)
		b, errB := Parse(moved, false)
		if (errA == nil) != (errB == nil) {
			t.Fatalf("seed %d: %v: %v, and %v: %v", seed, list, errA, moved, errB)
		}
		if errA != nil {
			continue
		}
		accepted++
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %v is %+v\nand %v is %+v", seed, list, a, moved, b)
		}
	}
	if accepted < 5000 {
		t.Errorf("%d lists were accepted, want some thousand", accepted)
	}
}

// TestTheLastOfMountCounts: the last of contradicting options of mount(8) wins, in each order, as
// its manual page says. mount of util-linux 2.38 mounts a tmpfs with the same results.
func TestTheLastOfMountCounts(t *testing.T) {
	words := []string{"ro", "rw", "suid", "nosuid", "dev", "nodev", "exec", "noexec", "user", "users", "owner", "group", "defaults", "nouser"}
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 0))
		var list []string
		is := map[string]bool{} // the resulting flags: ro, nosuid, nodev, noexec
		for range r.IntN(7) {
			word := words[r.IntN(len(words))]
			list = append(list, word)
			switch word {
			case "ro", "nosuid", "nodev", "noexec":
				is[word] = true
			case "suid", "dev", "exec":
				is["no"+word] = false
			case "rw":
				is["ro"] = false
			case "user", "users":
				is["noexec"] = true
				fallthrough
			case "owner", "group":
				is["nosuid"], is["nodev"] = true, true
			}
		}
		o, err := Parse([]string{strings.Join(list, ",")}, false)
		if err != nil {
			t.Fatalf("seed %d: %v: %v", seed, list, err)
		}
		for word, got := range map[string]bool{"ro": o.ReadOnly, "nosuid": o.NoSuid, "nodev": o.NoDev, "noexec": o.NoExec} {
			if got != is[word] {
				t.Errorf("seed %d: %v: %s is %t, want %t", seed, list, word, got, is[word])
			}
		}
	}
}
