// Each message's layout, as tables independent of the code: each field is at its position, and
// nothing else.

package mad

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A field is one row in a table of IBA chapter 12: offset in bytes, in bits from that byte's most
// significant one, and width in bits.
type field struct {
	name             string
	byteAt, bit, len int
}

// A message is a table with its codec's functions.
type message struct {
	attribute Attribute
	fields    []field
	parse     func(*Data) (any, error)
	append    func(any, []byte) []byte // nil: decode only
}

func pathFields(name string, at int) []field {
	return []field{
		{name + ".LocalLID", at, 0, 16}, {name + ".RemoteLID", at + 2, 0, 16}, {name + ".LocalGID", at + 4, 0, 128}, {name + ".RemoteGID", at + 20, 0, 128},
		{name + ".FlowLabel", at + 36, 0, 20}, {name + ".PacketRate", at + 39, 2, 6}, {name + ".TrafficClass", at + 40, 0, 8},
		{name + ".HopLimit", at + 41, 0, 8}, {name + ".SL", at + 42, 0, 4}, {name + ".SubnetLocal", at + 42, 4, 1}, {name + ".LocalAckTimeout", at + 43, 0, 5},
	}
}

var commIDs = []field{{"LocalCommID", 0, 0, 32}, {"RemoteCommID", 4, 0, 32}}

var messages = []message{
	{AttrREQ, append(append([]field{
		{"LocalCommID", 0, 0, 32}, {"ServiceID", 8, 0, 64}, {"LocalCAGUID", 16, 0, 64}, {"LocalQKey", 28, 0, 32}, {"LocalQPN", 32, 0, 24},
		{"ResponderResources", 35, 0, 8}, {"LocalEECN", 36, 0, 24}, {"InitiatorDepth", 39, 0, 8}, {"RemoteEECN", 40, 0, 24},
		{"RemoteCMTimeout", 43, 0, 5}, {"Service", 43, 5, 2}, {"FlowControl", 43, 7, 1}, {"StartingPSN", 44, 0, 24},
		{"LocalCMTimeout", 47, 0, 5}, {"RetryCount", 47, 5, 3}, {"PartitionKey", 48, 0, 16}, {"PathMTU", 50, 0, 4}, {"RDCExists", 50, 4, 1},
		{"RNRRetryCount", 50, 5, 3}, {"MaxCMRetries", 51, 0, 4}, {"SRQ", 51, 4, 1}, {"ExtendedTransport", 51, 5, 3},
		{"SAPSupported", 139, 5, 1}, {"PrivateData", 140, 0, 92 * 8},
	}, pathFields("Primary", 52)...), pathFields("Alternate", 96)...),
		infallible(ParseREQ), appends((*REQ).Append)},
	{AttrREP, append([]field{
		{"LocalQKey", 8, 0, 32}, {"LocalQPN", 12, 0, 24}, {"LocalEECN", 16, 0, 24}, {"StartingPSN", 20, 0, 24}, {"ResponderResources", 24, 0, 8},
		{"InitiatorDepth", 25, 0, 8}, {"TargetAckDelay", 26, 0, 5}, {"FailoverAccepted", 26, 5, 2}, {"FlowControl", 26, 7, 1},
		{"RNRRetryCount", 27, 0, 3}, {"SRQ", 27, 3, 1}, {"LocalCAGUID", 28, 0, 64}, {"PrivateData", 36, 0, 196 * 8},
	}, commIDs...), infallible(ParseREP), appends((*REP).Append)},
	{AttrRTU, append([]field{{"PrivateData", 8, 0, 224 * 8}}, commIDs...), infallible(ParseRTU), appends((*RTU).Append)},
	{AttrMRA, append([]field{{"Message", 8, 0, 2}, {"ServiceTimeout", 9, 0, 5}, {"PrivateData", 10, 0, 222 * 8}}, commIDs...),
		infallible(ParseMRA), appends((*MRA).Append)},
	{AttrREJ, append([]field{{"Message", 8, 0, 2}, {"InfoLen", 9, 0, 7}, {"Reason", 10, 0, 16}, {"Info", 12, 0, 72 * 8}, {"PrivateData", 84, 0, 148 * 8}}, commIDs...),
		fallible(ParseREJ), appends((*REJ).Append)},
	{AttrDREQ, append([]field{{"RemoteQPN", 8, 0, 24}, {"PrivateData", 12, 0, 220 * 8}}, commIDs...), infallible(ParseDREQ), appends((*DREQ).Append)},
	{AttrDREP, append([]field{{"PrivateData", 8, 0, 224 * 8}}, commIDs...), infallible(ParseDREP), appends((*DREP).Append)},
	{AttrLAP, append([]field{{"RemoteQPN", 12, 0, 24}, {"RemoteCMTimeout", 15, 0, 5}}, commIDs...), infallible(ParseLAP), appends((*LAP).Append)},
	{AttrAPR, append([]field{{"InfoLen", 8, 0, 8}, {"Status", 9, 0, 8}, {"Info", 12, 0, 72 * 8}, {"PrivateData", 84, 0, 148 * 8}}, commIDs...),
		fallible(ParseAPR), appends((*APR).Append)},
	{AttrSIDRREQ, []field{{"RequestID", 0, 0, 32}, {"PartitionKey", 4, 0, 16}, {"ServiceID", 8, 0, 64}, {"PrivateData", 16, 0, 216 * 8}},
		infallible(ParseSIDRREQ), appends((*SIDRREQ).Append)},
	{AttrSIDRREP, []field{{"RequestID", 0, 0, 32}, {"Status", 4, 0, 8}, {"InfoLen", 5, 0, 8}, {"QPN", 8, 0, 24}, {"ServiceID", 12, 0, 64},
		{"QKey", 20, 0, 32}, {"Info", 24, 0, 72 * 8}, {"PrivateData", 96, 0, 136 * 8}}, fallible(ParseSIDRREP), appends((*SIDRREP).Append)},
}

func infallible[T any](f func(*Data) T) func(*Data) (any, error) {
	return func(d *Data) (any, error) { return f(d), nil }
}

func fallible[T any](f func(*Data) (T, error)) func(*Data) (any, error) {
	return func(d *Data) (any, error) { m, err := f(d); return m, err }
}

func appends[T any](f func(*T, []byte) []byte) func(any, []byte) []byte {
	return func(m any, b []byte) []byte { v := m.(T); return f(&v, b) }
}

// set sets all bits in a field, or those of the largest valid length.
func (f field) set(d *Data) {
	if f.name == "InfoLen" {
		d[f.byteAt] = byte(InfoMax << (8 - f.len))
		return
	}
	for i := f.bit; i < f.bit+f.len; i++ {
		d[f.byteAt+i/8] |= 0x80 >> (i % 8)
	}
}

// mask returns data in which all bits of the fields are set.
func (m *message) mask() (d Data) {
	for _, f := range m.fields {
		for i := f.bit; i < f.bit+f.len; i++ {
			d[f.byteAt+i/8] |= 0x80 >> (i % 8)
		}
	}
	return d
}

// leaves calls f for each field with a table row.
func leaves(prefix string, v reflect.Value, f func(name string, v reflect.Value)) {
	for i := range v.NumField() {
		name := prefix + v.Type().Field(i).Name
		if v.Field(i).Kind() == reflect.Struct {
			leaves(name+".", v.Field(i), f)
			continue
		}
		f(name, v.Field(i))
	}
}

// full reports whether a value has as many bits set as its field is wide.
func full(v reflect.Value, f field) bool {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool() && f.len == 1
	case reflect.Array:
		for i := range v.Len() {
			if v.Index(i).Uint() != 0xff {
				return false
			}
		}
		return v.Len()*8 == f.len
	default:
		return f.name == "InfoLen" && v.Uint() == InfoMax || v.Uint() == 1<<f.len-1
	}
}

// With one field's bits set, decoding sets only that field, and encoding puts it at the same
// position.
func TestFieldPositions(t *testing.T) {
	for _, m := range messages {
		for _, f := range m.fields {
			var d Data
			f.set(&d)
			got, err := m.parse(&d)
			if err != nil {
				t.Errorf("%v with %s: %v", m.attribute, f.name, err)
				continue
			}
			seen := 0
			leaves("", reflect.ValueOf(got), func(name string, v reflect.Value) {
				switch {
				case name == f.name && full(v, f):
					seen++
				case name == f.name:
					t.Errorf("%v: %s set, read as %v", m.attribute, name, v)
				case !v.IsZero():
					t.Errorf("%v: %s set, but %s is %v", m.attribute, f.name, name, v)
				}
			})
			if seen != 1 {
				t.Errorf("%v: %s was read %d times", m.attribute, f.name, seen)
			}
			if m.append != nil && !bytes.Equal(m.append(got, nil), d[:]) {
				t.Errorf("%v with %s: built %x", m.attribute, f.name, m.append(got, nil))
			}
		}
	}
}

// Each struct field has a row, and no two rows share a bit.
func TestLayoutTablesAreComplete(t *testing.T) {
	for _, m := range messages {
		got, _ := m.parse(new(Data))
		n, bits := 0, 0
		leaves("", reflect.ValueOf(got), func(string, reflect.Value) { n++ })
		for _, f := range m.fields {
			bits += f.len
		}
		mask, set := m.mask(), 0
		for _, b := range mask {
			set += strings.Count(bitString(b), "1")
		}
		if n != len(m.fields) || bits != set {
			t.Errorf("%v: %d fields, %d rows; %d bits in rows, %d in the mask", m.attribute, n, len(m.fields), bits, set)
		}
	}
}

func bitString(b byte) (s string) {
	for i := range 8 {
		s += string('0' + b>>(7-i)&1)
	}
	return s
}

// randomData draws a message's bytes, with a valid information length.
func randomData(t *rapid.T, m *message) (d Data) {
	copy(d[:], rapid.SliceOfN(rapid.Byte(), DataLen, DataLen).Draw(t, m.attribute.String()))
	for _, f := range m.fields {
		if f.name == "InfoLen" {
			d[f.byteAt] = rapid.ByteMax(InfoMax).Draw(t, "information")<<(8-f.len) | d[f.byteAt]&^(0xff<<(8-f.len))
		}
	}
	return d
}

// Random bytes survive decoding and encoding, with reserved bits zero; encoding appends.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for i := range messages {
			m := &messages[i]
			d := randomData(t, m)
			got, err := m.parse(&d)
			if err != nil {
				t.Fatalf("%v: %v", m.attribute, err)
			}
			if m.append == nil {
				continue
			}
			want := m.mask()
			for i := range want {
				want[i] &= d[i]
			}
			if b := m.append(got, []byte{0xee}); b[0] != 0xee || !bytes.Equal(b[1:], want[:]) {
				t.Fatalf("%v: %x came back as %x", m.attribute, want, b[1:])
			}
			if again, err := m.parse(&want); err != nil || again != got {
				t.Fatalf("%v: reserved bits changed %+v to %+v, %v", m.attribute, got, again, err)
			}
		}
	})
}
