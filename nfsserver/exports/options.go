// The options: accepted ones, and reasons for refusing others.

package exports

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/similar"
)

// An option is a word in an option list.
type option struct {
	// about is the field that the option sets. Two options with the same about contradict each
	// other, unless they set the same value.
	about string
	set   func(o *Options, value string) error // nil: no effect
	value string                               // placeholder in messages; "": takes no value
}

// flag returns an option without a value.
func flag(about string, set func(o *Options)) option {
	return option{about: about, set: func(o *Options, _ string) error { set(o); return nil }}
}

var options = map[string]option{
	"ro":               access("access", func(a *Access) { a.ReadOnly = true }),
	"rw":               access("access", func(a *Access) { a.ReadOnly = false }),
	"sync":             flag("sync", func(o *Options) { o.Async = false }),
	"async":            flag("sync", func(o *Options) { o.Async = true }),
	"secure":           access("secure", func(a *Access) { a.Secure = true }),
	"insecure":         access("secure", func(a *Access) { a.Secure = false }),
	"root_squash":      access("root", func(a *Access) { a.NoRootSquash = false }),
	"no_root_squash":   access("root", func(a *Access) { a.NoRootSquash = true }),
	"all_squash":       access("all", func(a *Access) { a.AllSquash = true }),
	"no_all_squash":    access("all", func(a *Access) { a.AllSquash = false }),
	"acl":              flag("acl", func(o *Options) { o.NoACL = false }),
	"no_acl":           flag("acl", func(o *Options) { o.NoACL = true }),
	"crossmnt":         flag("crossmnt", func(o *Options) { o.whole.CrossMounts = true }),
	"nocrossmnt":       flag("crossmnt", func(o *Options) { o.whole.CrossMounts = false }),
	"nohide":           flag("hide", func(o *Options) { o.whole.NoHide = true }),
	"hide":             flag("hide", func(o *Options) { o.whole.NoHide = false }),
	"subtree_check":    flag("subtree", func(o *Options) { o.whole.SubtreeCheck = true }),
	"no_subtree_check": flag("subtree", func(o *Options) { o.whole.SubtreeCheck = false }),
	"wdelay":           {}, // no write is delayed for others here
	"no_wdelay":        {},
	"auth_nlm":         {}, // lock calls are made with AUTH_SYS, whatever sec= says
	"no_auth_nlm":      {},
	"secure_locks":     {},
	"insecure_locks":   {},
	"no_pnfs":          {}, // for NFS version 4
	"anonuid":          {"anonuid", func(o *Options, v string) error { return id(&o.AnonUID, v) }, "UID"},
	"anongid":          {"anongid", func(o *Options, v string) error { return id(&o.AnonGID, v) }, "GID"},
	"sec":              {secWord, sec, "sys, krb5, krb5i, krb5p or none"},
	"xprtsec":          {"xprtsec", xprtsec, "none:tls:mtls, tls:mtls or mtls"},
	"cert":             {"cert", cert, "NAME"},
	"ca":               {"ca", ca, "SHA256"},
	"certid":           {"certid", certID, "UID:GID"},
	"fsid":             {"fsid", fsid, "NUMBER, root or a UUID"},
}

// refused lists exports(5)'s words that this server does not support, with the reasons.
var refused = map[string]string{
	"pnfs":           "pNFS is of NFS version 4",
	"security_label": "security labels are of NFS version 4.2",
	"refer":          "referrals are of NFS version 4",
	"replicas":       "replicas are of NFS version 4",
	"nordirplus":     "clients choose how they list directories: mount with nordirplus instead",
	"reexport":       "give the export a number with fsid= instead",
	"mountpoint":     "the server does not check for mount points",
	"mp":             "the server does not check for mount points",
}

// A Word is an option for documentation.
type Word struct {
	Name     string
	Refused  string // the reason; "": the option is accepted
	NoEffect bool   // accepted without effect
}

// Words lists the accepted options by name, then the refused ones.
func Words() (words []Word) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		words = append(words, Word{Name: name, NoEffect: options[name].set == nil})
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		words = append(words, Word{Name: name, Refused: refused[name]})
	}
	return words
}

// options parses a list of options up to a byte in stop or the word's end. It records mistakes in
// single options, and continues.
func (p *parser) options(o *Options, stop string) error {
	seen := map[string]string{}
	o.beginList()
	for {
		begin := p.at
		word := p.until(stop + ",")
		switch name, _, _ := strings.Cut(word, "="); {
		case name == "" && stop != "" && p.wordEnd() && !p.lineEnd():
			return p.fail(begin, "a blank inside the parentheses: write the options without blanks, such as (rw,sync)")
		case name == "" && stop != "":
			return p.fail(begin, "an option is missing here: write one, such as ro or rw")
		case name == "":
			return p.fail(begin, "an option is missing here: a dash stands before the defaults of the line, such as -rw,sync")
		}
		p.keep(p.option(o, seen, begin, word))
		if p.peek() != ',' {
			o.endList()
			return nil
		}
		p.at++
	}
}

// option parses one option, which begins at offset begin.
func (p *parser) option(o *Options, seen map[string]string, begin int, word string) error {
	name, value, valued := strings.Cut(word, "=")
	opt, ok := options[name]
	switch {
	case refused[name] != "":
		return p.fail(begin, "option %s is not supported: %s", name, refused[name])
	case !ok:
		return p.fail(begin, "there is no option %q: %s", name, suggestion(name))
	case opt.value == "" && valued:
		return p.fail(begin, "option %s takes no value", name)
	case opt.value != "" && value == "":
		return p.fail(begin, "the value of %s is missing: write %s=%s", name, name, opt.value)
	}
	if opt.set == nil {
		return nil
	}
	if opt.about == secWord {
		o.beginGroup(seen)
	}
	before := *o
	if err := opt.set(o, value); err != nil {
		return p.fail(begin+len(name)+1, "%s=%s: %v", name, value, err)
	}
	switch other := seen[opt.about]; {
	case other == "" || opt.about == secWord:
		seen[opt.about] = word
	case *o != before:
		*o = before
		return p.fail(begin, "%s stands beside %s in one list: leave one of them out", word, other)
	}
	return nil
}

// suggestion returns advice on an unknown option.
func suggestion(name string) string {
	if word := similar.Word(name, slices.Sorted(maps.Keys(options))); word != "" {
		return "did you mean " + word + "?"
	}
	return "nfsrdma-exports(5) lists the options"
}

var errID = errors.New("must be a number from 0 to 4294967294: id -u NAME prints the one of a user, id -g NAME of a group")

// id parses a user or group. Old files write nobody as -2, which becomes the number with the same
// 32 bits.
func id(to *uint32, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < -1<<31 || n >= 1<<32-1 || n == -1 {
		return errID
	}
	*to = uint32(n)
	return nil
}

// fsid parses a number of 32 bits, root, or a UUID with or without dashes. As in exportfs(8) a
// number may be hexadecimal (0x) or octal (0).
func fsid(o *Options, value string) error {
	w := &o.whole
	w.HasFSID = true
	if value == "root" {
		w.FSID = 0
		return nil
	}
	digits, base := value, 10
	switch {
	case strings.HasPrefix(value, "0x") || strings.HasPrefix(value, "0X"):
		digits, base = value[2:], 16
	case strings.HasPrefix(value, "0"):
		base = 8
	}
	if n, err := strconv.ParseUint(digits, base, 32); err == nil {
		w.FSID = n
		return nil
	}
	b, err := hex.DecodeString(strings.NewReplacer("-", "", ":", "").Replace(value))
	if err != nil || len(b) != 16 {
		return errors.New("must be a number below 4294967296, root, or a UUID")
	}
	w.FSID = binary.BigEndian.Uint64(b) ^ binary.BigEndian.Uint64(b[8:])
	return nil
}
