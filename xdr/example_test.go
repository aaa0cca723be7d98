// Examples: values, and an item outside its message.

package xdr_test

import (
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// A user is a type of some protocol, with its fields in the specification's order.
type user struct {
	id   uint32
	name string
}

func (u *user) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(u.id)
	e.String(u.name)
}

func (u *user) DecodeXDR(d *xdr.Decoder) {
	u.id = d.Uint32()
	u.name = d.String(255) // the specification's limit
}

// Encode a type and decode it again. The Decoder keeps the first error, so check it once.
func Example() {
	var e xdr.Encoder
	(&user{7, "ada"}).EncodeXDR(&e)
	fmt.Printf("% x\n", e.Bytes())

	var u user
	d := xdr.NewDecoder(e.Bytes())
	u.DecodeXDR(d)
	if err := d.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(u.id, u.name)

	d = xdr.NewDecoder(e.Bytes()[:9]) // cut in the middle of the name
	u.DecodeXDR(d)
	fmt.Println(d.Err())
	// Output:
	// 00 00 00 07 00 00 00 03 61 64 61 00
	// 7 ada
	// xdr: message ends early
}

// An item is an opaque's content outside the stream, which has only its length. Over RDMA it goes
// from memory to memory, over TCP it is written without a copy.
func ExampleEncoder_Item() {
	data := []byte("a large result")
	var e xdr.Encoder
	e.Uint32(0) // a status
	e.Item(data)
	item := e.Items()[0]
	fmt.Printf("stream: % x\n", e.Bytes())
	fmt.Println("item at", item.Off, "is the slice itself:", &item.Data[0] == &data[0])
	// Output:
	// stream: 00 00 00 00 00 00 00 0e
	// item at 8 is the slice itself: true
}

// A Decoder reads an item the same way, detached or from the stream.
func ExampleDecoder_Item() {
	apart := []byte{0, 0, 0, 5} // the length; the content arrived separately
	var d xdr.Decoder
	d.Reset(apart, []xdr.Item{{Off: 4, Data: []byte("hello")}})
	fmt.Printf("%s\n", d.Item(1024))

	within := append(apart, "world\x00\x00\x00"...)
	d.Reset(within, nil)
	fmt.Printf("%s\n", d.Item(1024))

	d.Reset(within, nil)
	d.Item(4)
	fmt.Println(d.Err())
	// Output:
	// hello
	// world
	// xdr: length over its limit
}

// Marshal and Unmarshal code whole types by reflection, for rare messages.
func ExampleMarshal() {
	type point struct{ X, Y int32 }
	var e xdr.Encoder
	if err := xdr.Marshal(&e, point{3, -1}); err != nil {
		log.Fatal(err)
	}
	var p point
	if err := xdr.Unmarshal(xdr.NewDecoder(e.Bytes()), &p, 64); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("% x is %v\n", e.Bytes(), p)
	// Output: 00 00 00 03 ff ff ff ff is {3 -1}
}
