// Prometheus' text format, version 0.0.4, as servers write it: one sample per line.

package figures

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Limits of the input, because any server may answer at an address.
const (
	// MaxText limits the text in bytes: some hundred times the text of a server with all programs
	// called.
	MaxText    = 16 << 20
	maxSamples = 100_000
	maxLabels  = 32
	maxClasses = 256
	maxValue   = 1 << 64 // counters have 64 bits
)

var errSyntax = errors.New("it is not in the text format of Prometheus")

// A parser reads one text.
type parser struct {
	set        Set
	histograms map[string]bool
	samples    int
	// at has each histogram's index in the set, by name and labels.
	at map[string]int
}

// Parse reads a text. Samples are dropped if their value is no number or exceeds the range of
// counters.
func Parse(text string) (Set, error) {
	p := parser{set: Set{}, histograms: map[string]bool{}, at: map[string]int{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := p.line(strings.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return p.set, nil
}

func (p *parser) line(line string) error {
	switch {
	case line == "":
		return nil
	case line[0] == '#':
		if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" && f[3] == "histogram" {
			p.histograms[f[2]] = true
		}
		return nil
	}
	if p.samples++; p.samples > maxSamples {
		return fmt.Errorf("there are more than %d figures", maxSamples)
	}
	end := strings.IndexAny(line, "{ \t")
	if end <= 0 {
		return errSyntax
	}
	name, rest := line[:end], line[end:]
	labels := map[string]string{}
	if rest[0] == '{' {
		var err error
		if labels, rest, err = parseLabels(rest[1:]); err != nil {
			return err
		}
	}
	fields := strings.Fields(rest) // the value, and perhaps a timestamp
	if len(fields) == 0 || len(fields) > 2 {
		return errSyntax
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return errSyntax
	}
	if sane(value) {
		p.add(name, labels, value)
	}
	return nil
}

// add stores a sample. The lines of a histogram become one sample.
func (p *parser) add(name string, labels map[string]string, value float64) {
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		base, ok := strings.CutSuffix(name, part)
		if !ok || !p.histograms[base] {
			continue
		}
		end := labels["le"]
		delete(labels, "le")
		h := p.histogram(base, labels)
		switch {
		case part == "_sum":
			h.Value = value
		case part == "_count": // the same number as in the class +Inf, which ends the histogram
			h.Classes = append(h.Classes, Class{Calls: value})
		case len(h.Classes) < maxClasses:
			if seconds, err := strconv.ParseFloat(end, 64); err == nil && sane(seconds) {
				h.Classes = append(h.Classes, Class{seconds, value})
			}
		}
		return
	}
	p.set[name] = append(p.set[name], Sample{Labels: labels, Value: value})
}

// sane reports whether sums and differences of such values are numbers too. For NaN it returns
// false.
func sane(value float64) bool { return math.Abs(value) <= maxValue }

// histogram returns the sample of a histogram, and makes the sample at the histogram's first line.
func (p *parser) histogram(name string, labels map[string]string) *Sample {
	id := name + Key(labels)
	i, ok := p.at[id]
	if !ok {
		i = len(p.set[name])
		p.at[id] = i
		p.set[name] = append(p.set[name], Sample{Labels: labels})
	}
	return &p.set[name][i]
}

// parseLabels reads label="value" pairs up to their closing brace.
func parseLabels(s string) (labels map[string]string, rest string, err error) {
	labels = map[string]string{}
	for len(labels) <= maxLabels {
		s = strings.TrimLeft(s, " \t,")
		if strings.HasPrefix(s, "}") {
			return labels, s[1:], nil
		}
		name, after, ok := strings.Cut(s, "=")
		after = strings.TrimLeft(after, " \t")
		if !ok || !strings.HasPrefix(after, `"`) {
			return nil, "", errSyntax
		}
		var value string
		if value, s, ok = unquote(after[1:]); !ok {
			return nil, "", errSyntax
		}
		labels[strings.TrimSpace(name)] = value
	}
	return nil, "", errSyntax
}

// unquote reads a value up to its closing quote. Escapes are \\, \" and \n.
func unquote(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], true
		case c != '\\':
			b.WriteByte(c)
		case i+1 == len(s):
			return "", "", false
		default:
			i++
			if c = s[i]; c == 'n' {
				c = '\n'
			}
			b.WriteByte(c)
		}
	}
	return "", "", false
}
