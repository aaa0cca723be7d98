// Parses options: from command-line strings to values, with one clear error.

package mountopt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/similar"
)

// A given is one option as the user has written it.
type given struct{ name, value, text string }

// A parser remembers the options seen, so it finds contradictions.
type parser struct {
	o    *Options
	seen map[string]given // options by group, except options that replace one another
}

// Parse reads the comma-separated lists of -o in order. Options of mount(8), such as ro and rw,
// replace one another; contradicting options of nfs(5) are an error. With sloppy, unknown options
// are ignored (mount(8) -s).
func Parse(lists []string, sloppy bool) (*Options, error) {
	p := parser{o: defaults(), seen: make(map[string]given)}
	var texts []string
	for _, list := range lists {
		more, err := splitList(list)
		if err != nil {
			return nil, err
		}
		texts = append(texts, more...)
	}
	sloppy = sloppy || slices.Contains(texts, "sloppy")
	for _, text := range texts {
		if err := p.add(text, sloppy); err != nil {
			return nil, err
		}
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p.o, nil
}

// splitList splits at commas outside quotes, because x-… and comment= take any text. An unclosed
// quote is an error: it would swallow all later options, such as nosuid.
func splitList(s string) (texts []string, err error) {
	quoted, start := false, 0
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			texts = append(texts, s[start:i])
			start = i + 1
		}
	}
	if quoted {
		return nil, fmt.Errorf("option %s: the quote is not closed: write a second \"", s[start:])
	}
	return append(texts, s[start:]), nil
}

// add parses one option.
func (p *parser) add(text string, sloppy bool) error {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasPrefix(text, "x-") || strings.HasPrefix(text, "X-") {
		return nil
	}
	w := given{text: text}
	var hasValue bool
	w.name, w.value, hasValue = strings.Cut(text, "=")
	w.value = strings.Trim(w.value, `"`)
	i := slices.IndexFunc(options, func(x option) bool { return x.name == w.name })
	if i < 0 {
		if sloppy {
			return nil
		}
		return unknown(w.name)
	}
	opt := &options[i]
	switch {
	case opt.kind == refused:
		return fmt.Errorf("option %s: %s", text, opt.help)
	case hasValue && w.value == "" && strings.HasPrefix(opt.arg, "["):
		return fmt.Errorf("option %s: a value is missing: write %s alone, or %s", text, opt.name, opt.usage())
	case hasValue && opt.arg == "":
		return fmt.Errorf("option %s: %s has no value: write %s alone", text, opt.name, opt.name)
	case !hasValue && opt.arg != "" && !strings.HasPrefix(opt.arg, "["):
		return fmt.Errorf("option %s: a value is missing: write %s=%s", text, opt.name, opt.arg)
	}
	if err := p.contradicts(opt, w); err != nil {
		return err
	}
	if opt.kind == renamed {
		p.o.Warning = fmt.Sprintf("option %s is now called %s", opt.name, opt.help)
	}
	if opt.set == nil {
		return nil
	}
	if err := opt.set(p.o, w.value); err != nil {
		return fmt.Errorf("option %s: %w", text, err)
	}
	return nil
}

// contradicts returns an error if an earlier option in opt's group has another meaning.
func (p *parser) contradicts(opt *option, w given) error {
	group := opt.group
	if w.text == "rdma" {
		group = "proto"
	}
	if strings.HasPrefix(group, "+") {
		return nil
	}
	if group == "" {
		group = opt.name
	}
	if before, ok := p.seen[group]; ok && before.text != w.text && !equivalent(before, w) {
		return fmt.Errorf("options %s and %s contradict each other: give one of them", before.text, w.text)
	}
	p.seen[group] = w
	return nil
}

// equivalent reports whether two differently written options of a group mean the same.
func equivalent(a, b given) bool {
	say := func(w given) string {
		switch {
		case w.text == "rdma" || w.name == "tcp":
			return w.name
		case w.name == "v3":
			return "3"
		case w.name == "proto":
			// "tcp6" means the same as "tcp": the server's address decides the address family
			return strings.TrimSuffix(w.value, "6")
		case w.name == "lookupcache" && w.value == "positive":
			return "pos"
		}
		return strings.Trim(w.value, "[]") // the value of mounthost
	}
	return say(a) != "" && say(a) == say(b)
}

// check finds contradictions between options of different groups.
func (p *parser) check() error {
	o := p.o
	off := p.seen["ac"].name == "noac"
	for _, name := range []string{"acregmin", "acregmax", "acdirmin", "acdirmax", "actimeo"} {
		w, ok := p.seen[name]
		if ok && off && w.value != "0" {
			return fmt.Errorf("options noac and %s contradict each other: give one of them", w.text)
		}
		all, both := p.seen["actimeo"]
		if ok && both && w.value != all.value {
			return fmt.Errorf("options %s and %s contradict each other: give one of them", all.text, w.text)
		}
	}
	if err := p.orderBounds("acregmin", "acregmax", &o.AttrFileMin, &o.AttrFileMax); err != nil {
		return err
	}
	if err := p.orderBounds("acdirmin", "acdirmax", &o.AttrDirMin, &o.AttrDirMax); err != nil {
		return err
	}
	lock, said := p.seen["lock"]
	if local, ok := p.seen["local_lock"]; ok && said && lock.name == "nolock" && local.value != "all" {
		return fmt.Errorf("options nolock and %s contradict each other: give one of them", local.text)
	}
	if off && p.seen["sync"].name == "async" {
		return fmt.Errorf("options noac and async contradict each other: noac writes at once")
	}
	if err := p.checkSecurity(); err != nil {
		return err
	}
	if o.NoAttrCache {
		setActimeo(o, 0)
	}
	return nil
}

// checkSecurity finds contradictions between security options, and with uid and gid.
func (p *parser) checkSecurity() error {
	s := &p.o.Security
	err := s.Check(func(name, value string) string {
		if value == "" {
			return "option " + name
		}
		return name + "=" + value
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"uid", "gid"} {
		if w, ok := p.seen[name]; ok && s.Kerberos() {
			return fmt.Errorf("options %s and sec=%s contradict each other: with Kerberos a user is whom the ticket names", w.text, s.Sec)
		}
	}
	return nil
}

// orderBounds keeps a minimum from exceeding its maximum. If only one bound is given, the other
// bound's default moves; two given bounds must fit.
func (p *parser) orderBounds(least, most string, lo, hi *time.Duration) error {
	if *lo <= *hi {
		return nil
	}
	low, givenLow := p.seen[least]
	high, givenHigh := p.seen[most]
	switch {
	case givenLow && givenHigh:
		return fmt.Errorf("options %s and %s contradict each other: the minimum is above the maximum", low.text, high.text)
	case givenLow:
		*hi = *lo
	default:
		*lo = *hi
	}
	return nil
}

// unknown returns the error for an unknown option.
func unknown(name string) error {
	if s := similar.Word(name, names()); s != "" {
		return fmt.Errorf("unknown option %q: did you mean %s?", name, s)
	}
	return fmt.Errorf("unknown option %q: nfsrdma mount --help lists the options", name)
}
