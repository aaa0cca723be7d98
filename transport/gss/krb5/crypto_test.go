// The encryption types against the vectors of their RFCs and of MIT's library.

package krb5

import (
	"bytes"
	"crypto/aes"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestNfold checks the vectors of RFC 3961 A.1.
func TestNfold(t *testing.T) {
	for _, v := range []struct{ in, out string }{
		{"012345", "be072631276b1955"},
		{"password", "78a07b6caf85fa"},
		{"Rough Consensus, and Running Code", "bb6ed30870b7f0e0"},
		{"password", "59e4a8ca7c0385c3c37b3f6d2000247cb6e6bd5b3e"},
		{"MASSACHVSETTS INSTITVTE OF TECHNOLOGY", "db3b0d8f0b061e603282b308a50841229ad798fab9540c1b"},
		{"Q", "518a54a215a8452a518a54a215a8452a518a54a215"},
		{"ba", "fb25d531ae8974499f52fd92ea9857c4ba24cf297e"},
	} {
		if got := hex.EncodeToString(nfold([]byte(v.in), len(v.out)/2)); got != v.out {
			t.Errorf("nfold(%q, %d) = %s, want %s", v.in, len(v.out)/2, got, v.out)
		}
	}
}

// testKeys are protocol keys of MIT's key derivation test and of RFC 8009 A.
var testKeys = map[int32]string{
	AES128SHA1: "42263c6e89f4fc28b8df68ee09799f15",
	AES256SHA1: "fe697b52bc0d3ce14432ba036a92e65bbb52280990a2fa27883998d72af30161",
	AES128SHA2: "3705d96080c17728a0e800eab6e0d23c",
	AES256SHA2: "6d404d37faf79f9df0d33568d320669800eb4836472ea8a026d16b7182460c52",
}

func testKey(t testing.TB, id int32) key {
	t.Helper()
	k, err := newKey(id, must.Hex(t, testKeys[id]))
	must.Succeed(t, err)
	return k
}

// TestDerive checks the keys Kc, Ke and Ki for usage 2, with the values in MIT's test and in RFC
// 8009 A.
func TestDerive(t *testing.T) {
	conformance.Proves(t, "R4121-002")
	for id, want := range map[int32][3]string{
		AES128SHA1: {"34280a382bc92769b2da2f9ef066854b", "5b14fc4e250e14ddf9dccf1af6674f53", "4ed31063621684f09ae8d89991af3e8f"},
		AES256SHA1: {"bfab388bdcb238e9f9c98d6a878304f04d30c82556375ac507a7a852790f4674", "c7cfd9cd75fe793a586a542d87e0d1396f1134a104bb1a9190b8c90ada3ddf37", "97151b4c76945063e2eb0529dc067d97d7bba90776d8126d91f34f3101aea8ba"},
		AES128SHA2: {"b31a018a48f54776f403e9a396325dc3", "9b197dd1e8c5609d6e67c3e37c62c72e", "9fda0e56ab2d85e1569a688696c26a6c"},
		AES256SHA2: {"ef5718be86cc84963d8bbb5031e9f5c4ba41f28faf69e73d", "56ab22bee63d82d7bc5227f6773f8ea7a5eb1c825160c38312980c442e5c7e49", "69b16514e3cd8e56b82010d5c73012b622c4d00ffc23ed1f"},
	} {
		k := testKey(t, id)
		for i, purpose := range []byte{forChecksum, forEncryption, forIntegrity} {
			if got := hex.EncodeToString(k.derive(2, purpose)); got != want[i] {
				t.Errorf("%s: derived key %#x is %s, want %s", k.et.name, purpose, got, want[i])
			}
		}
	}
}

// TestCTS checks the vectors of RFC 3962 B.
func TestCTS(t *testing.T) {
	const plain = "I would like the General Gau's Chicken, please, and wonton soup."
	const (
		b1 = "97687268d6ecccc0c07b25e25ecfe584"
		b2 = "39312523a78662d5be7fcbcc98ebf5a8"
		b3 = "9dad8bbb96c4cdc03bc103e1a194bbd8"
	)
	block, err := aes.NewCipher([]byte("chicken teriyaki"))
	must.Succeed(t, err)
	for n, want := range map[int]string{
		17: "c6353568f2bf8cb4d8a580362da7ff7f97",
		31: "fc00783e0efdb2c1d445d4c8eff7ed22" + b1[:30],
		32: b2 + b1,
		47: b1 + "b3fffd940c16a18c1b5549d2f838029e" + b2[:30],
		48: b1 + b3 + b2,
		64: b1 + b2 + "4807efe836ee89a526730dbc2f7bc840" + b3,
	} {
		b := append(make([]byte, 0, n+blockSize), plain[:n]...)
		tail := n - stolen(n)
		e := newCTSEncrypter(block)
		e.begin()
		e.blocks(b[:tail])
		e.last(b[tail:])
		if got := hex.EncodeToString(b); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
		d := newCTSDecrypter(block)
		d.begin()
		d.blocks(b[:tail])
		d.last(b[tail:])
		if string(b) != plain[:n] {
			t.Errorf("%d bytes decrypt to %q", n, b)
		}
	}
}

// TestOpenSHA2 opens the messages of RFC 8009 A.
func TestOpenSHA2(t *testing.T) {
	const plain = "000102030405060708090a0b0c0d0e0f1011121314"
	for id, messages := range map[int32]map[int]string{
		AES128SHA2: {
			0:  "ef85fb890bb8472f4dab20394dca781dad877eda39d50c870c0d5a0a8e48c718",
			6:  "84d7f30754ed987bab0bf3506beb09cfb55402cef7e6877ce99e247e52d16ed4421dfdf8976c",
			16: "3517d640f50ddc8ad3628722b3569d2ae07493fa8263254080ea65c1008e8fc295fb4852e7d83e1e7c48c37eebe6b0d3",
			21: "720f73b18d9859cd6ccb4346115cd336c70f58edc0c4437c5573544c31c813bce1e6d072c186b39a413c2f92ca9b8334a287ffcbfc",
		},
		AES256SHA2: {
			0:  "41f53fa5bfe7026d91faf9be959195a058707273a96a40f0a01960621ac612748b9bbfbe7eb4ce3c",
			6:  "4ed7b37c2bcac8f74f23c1cf07e62bc7b75fb3f637b9f559c7f664f69eab7b6092237526ea0d1f61cb20d69d10f2",
			16: "bc47ffec7998eb91e8115cf8d19dac4bbbe2e163e87dd37f49beca92027764f68cf51f14d798c2273f35df574d1f932e40c4ff255b36a266",
			21: "40013e2df58e8751957d2878bcd2d6fe101ccfd556cb1eae79db3c3ee86429f2b2a602ac86fef6ecb647d6295fae077a1feb517508d2c16b4192e01f62",
		},
	} {
		k := newSealKey(testKey(t, id), 2)
		for n, text := range messages {
			got, err := k.open(must.Hex(t, text))
			if err != nil || hex.EncodeToString(got) != plain[:2*n] {
				t.Errorf("%s: %d bytes open to %x, %v", k.et.name, n, got, err)
			}
		}
	}
}

// TestChecksumSHA2 checks the checksums of RFC 8009 A.
func TestChecksumSHA2(t *testing.T) {
	text := must.Hex(t, "000102030405060708090a0b0c0d0e0f1011121314")
	for id, want := range map[int32]string{
		AES128SHA2: "d78367186643d67b411cba9139fc1dee",
		AES256SHA2: "45ee791567eefca37f4ac1e0222de80d43c3bfa06699672a",
	} {
		k := testKey(t, id)
		s := newMACKey(k.et, k.derive(2, forChecksum)).begin()
		s.hash.Write(text)
		if got := hex.EncodeToString(s.end()); got != want {
			t.Errorf("%s: checksum %s, want %s", k.et.name, got, want)
		}
		s.free()
	}
}

// TestSeal: messages in parts, of all lengths around blocks and pieces, are sealed and opened. With
// a changed bit they do not open.
func TestSeal(t *testing.T) {
	sizes := []int{piece - 1, piece, piece + 1, 3*piece + 33, 1 << 20}
	for n := range 70 {
		sizes = append(sizes, n, piece-blockSize-35+n)
	}
	for _, et := range enctypes {
		k := newSealKey(testKey(t, et.id), 24)
		for _, n := range sizes {
			plain := make([]byte, n)
			for i := range plain {
				plain[i] = byte(i * 7)
			}
			parts := [][]byte{plain[:n/3], nil, plain[n/3 : n/2], plain[n/2:]}
			sealed := k.seal([]byte("dst"), plain[len(plain)-n/7:], append(parts[:3:3], parts[3][:len(parts[3])-n/7])...)[3:]
			if len(sealed) != n+k.overhead() {
				t.Fatalf("%s: %d bytes seal to %d, want %d", et.name, n, len(sealed), n+k.overhead())
			}
			flipped := bytes.Clone(sealed)
			flipped[(n*5)%len(flipped)] ^= 0x10
			if _, err := k.open(flipped); err == nil {
				t.Fatalf("%s: %d bytes open with a changed bit", et.name, n)
			}
			if got, err := k.open(sealed); err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("%s: %d bytes open to others, %v", et.name, n, err)
			}
		}
	}
}

// TestConfounder: a message never has the same ciphertext twice.
func TestConfounder(t *testing.T) {
	for _, et := range enctypes {
		k := newSealKey(testKey(t, et.id), 24)
		if bytes.Equal(k.seal(nil, nil, []byte("message")), k.seal(nil, nil, []byte("message"))) {
			t.Errorf("%s: the same ciphertext twice", et.name)
		}
	}
}

func TestOpenShort(t *testing.T) {
	for _, et := range enctypes {
		k := newSealKey(testKey(t, et.id), 24)
		for n := range k.overhead() {
			if _, err := k.open(make([]byte, n)); err == nil {
				t.Errorf("%s: %d bytes open", et.name, n)
			}
		}
	}
}

func TestNewKey(t *testing.T) {
	for _, id := range []int32{0, 1, 16, 23, 25, -1} { // des, des3, rc4, camellia
		if _, err := newKey(id, make([]byte, 16)); err == nil {
			t.Errorf("enctype %d is supported", id)
		}
	}
	for _, et := range enctypes {
		if _, err := newKey(et.id, make([]byte, et.keySize-1)); err == nil {
			t.Errorf("%s: a short key is valid", et.name)
		}
		if got := EnctypeName(et.id); got != et.name {
			t.Errorf("EnctypeName(%d) = %s", et.id, got)
		}
	}
	if got, want := EnctypeName(23), fmt.Sprint("enctype ", 23); got != want {
		t.Errorf("EnctypeName(23) = %s, want %s", got, want)
	}
}
