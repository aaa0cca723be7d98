// Random messages: reflection fills each field of a type with values valid on the wire.

package nfs3

import (
	"bytes"
	"math/rand/v2"
	"reflect"

	"github.com/nfsrdma/nfsrdma/xdr"
)

type message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// messages has the arguments and result of each procedure.
var messages = []struct {
	proc uint32
	args func() message
	res  func() message
}{
	{ProcGetattr, mk[GetattrArgs], mk[GetattrRes]},
	{ProcSetattr, mk[SetattrArgs], mk[SetattrRes]},
	{ProcLookup, mk[LookupArgs], mk[LookupRes]},
	{ProcAccess, mk[AccessArgs], mk[AccessRes]},
	{ProcReadlink, mk[ReadlinkArgs], mk[ReadlinkRes]},
	{ProcRead, mk[ReadArgs], mk[ReadRes]},
	{ProcWrite, mk[WriteArgs], mk[WriteRes]},
	{ProcCreate, mk[CreateArgs], mk[CreateRes]},
	{ProcMkdir, mk[MkdirArgs], mk[MkdirRes]},
	{ProcSymlink, mk[SymlinkArgs], mk[SymlinkRes]},
	{ProcMknod, mk[MknodArgs], mk[MknodRes]},
	{ProcRemove, mk[RemoveArgs], mk[RemoveRes]},
	{ProcRmdir, mk[RmdirArgs], mk[RmdirRes]},
	{ProcRename, mk[RenameArgs], mk[RenameRes]},
	{ProcLink, mk[LinkArgs], mk[LinkRes]},
	{ProcReaddir, mk[ReaddirArgs], mk[ReaddirRes]},
	{ProcReaddirplus, mk[ReaddirplusArgs], mk[ReaddirplusRes]},
	{ProcFsstat, mk[FsstatArgs], mk[FsstatRes]},
	{ProcFsinfo, mk[FsinfoArgs], mk[FsinfoRes]},
	{ProcPathconf, mk[PathconfArgs], mk[PathconfRes]},
	{ProcCommit, mk[CommitArgs], mk[CommitRes]},
}

// mk makes a *T as a message.
func mk[T any]() message { return any(new(T)).(message) }

// fill puts random values into every field of m.
func fill(r *rand.Rand, m message) {
	fillValue(r, reflect.ValueOf(m).Elem())
	if res, ok := m.(*ReadRes); ok {
		res.Count = uint32(len(res.Data))
	}
}

func fillValue(r *rand.Rand, v reflect.Value) {
	switch v.Interface().(type) {
	case FH:
		h, _ := MakeFH(randomBytes(r, FHSize))
		v.Set(reflect.ValueOf(h))
		return
	case FileType:
		v.SetUint(uint64(1 + r.IntN(7)))
		return
	case StableHow, CreateMode, TimeHow:
		v.SetUint(uint64(r.IntN(3)))
		return
	case Status:
		if r.IntN(3) == 0 {
			v.SetUint(uint64(ErrStale))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillValue(r, v.Field(i))
		}
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Uint32:
		v.SetUint(uint64(r.Uint32()))
	case reflect.Uint64:
		v.SetUint(r.Uint64())
	case reflect.Array: // a Verf
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(r.UintN(256)))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(randomBytes(r, 40))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fillValue(r, v.Index(i))
		}
	case reflect.Func:
	default:
		panic(v.Type())
	}
}

func randomBytes(r *rand.Rand, limit int) []byte {
	b := make([]byte, r.IntN(limit+1))
	for i := range b {
		b[i] = byte(r.UintN(256))
	}
	return b
}

// encode returns m's stream and items.
func encode(m xdr.Marshaler) ([]byte, []xdr.Item) {
	e := xdr.NewEncoder(nil)
	m.EncodeXDR(e)
	return e.Bytes(), e.Items()
}

// whole returns m with its item, if any, back in the stream.
func whole(m xdr.Marshaler) []byte {
	b, items := encode(m)
	if len(items) == 0 {
		return b
	}
	at, data := items[0].Off, items[0].Data
	return bytes.Join([][]byte{b[:at], data, make([]byte, xdr.Pad(len(data))), b[at:]}, nil)
}
