// Golden vectors from franz-go's kmsg, the second implementation that wire/ is compared with.
//
// Reads lines "NAME MIN MAX KEY" (a message of wire/schema, the versions it knows, its API) and prints, for
// each version that kmsg knows, one line a variant: NAME VERSION VARIANT HEX.  Variants:
//
//	full     every field set, two elements an array
//	null     every pointer and every slice that kmsg keeps nil is nil, one element an array of structures
//	unknown  as full, with an unknown tagged field in each structure of a flexible version
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// since names the tagged fields that came later than the flexible versions of their message: kmsg writes them
// whenever they are set, in whatever version.
var since = map[string]int16{
	"ProduceResponse.Brokers":                       10,
	"ProduceResponseTopicPartition.CurrentLeader":   10,
	"FetchRequest.ReplicaState":                     15,
	"FetchRequestTopicPartition.ReplicaDirectoryID": 17,
	"FetchRequestTopicPartition.HighWatermark":      18,
	"FetchResponse.Brokers":                         16,
}

type filler struct {
	variant string
	counter int64
	version int16
}

func (f *filler) next() int64 {
	f.counter++
	return f.counter*3 + 1
}

func (f *filler) text() string {
	return fmt.Sprintf("s%d", f.next())
}

// array fills a slice of anything but bytes.
func (f *filler) array(v reflect.Value) {
	n := 2
	if f.variant == "null" {
		if v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		n = 1
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := 0; i < n; i++ {
		f.fill(v.Index(i))
	}
}

func (f *filler) structure(v reflect.Value) {
	if d := v.Addr().MethodByName("Default"); d.IsValid() {
		d.Call(nil)
	}
	for i := 0; i < v.NumField(); i++ {
		name := v.Type().Field(i).Name
		if f.version < since[v.Type().Name()+"."+name] {
			continue
		}
		if name == "Version" && v.Field(i).Kind() == reflect.Int16 {
			v.Field(i).SetInt(int64(f.version))
		} else if name == "UnknownTags" {
			if f.variant == "unknown" {
				tags := v.Field(i).Addr().Interface().(*kmsg.Tags)
				tags.Set(77, []byte("unknown"))
			}
		} else {
			f.fill(v.Field(i))
		}
	}
}

func (f *filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8:
		v.SetInt(f.next()%100 + 1)
	case reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(f.next() % 30000)
	case reflect.Uint16:
		v.SetUint(uint64(f.next()))
	case reflect.Float64:
		v.SetFloat(float64(f.next()) + 0.25)
	case reflect.String:
		v.SetString(f.text())
	case reflect.Ptr:
		if f.variant != "null" {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Array:
		for i := 0; i < v.Len(); i++ {
			v.Index(i).SetUint(uint64(f.next() % 256))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if f.variant != "null" {
				v.SetBytes([]byte(f.text()))
			}
		} else {
			f.array(v)
		}
	case reflect.Struct:
		f.structure(v)
	default:
		panic("no value for " + v.Type().String())
	}
}

type message interface {
	AppendTo([]byte) []byte
	SetVersion(int16)
	IsFlexible() bool
	MaxVersion() int16
}

// maker gives new messages of a kind, nil for a kind that kmsg does not have.
func maker(name string, key int16) func() message {
	if key < 0 || kmsg.RequestForKey(key) == nil {
		return nil
	}
	if strings.HasSuffix(name, "Request") {
		return func() message { return kmsg.RequestForKey(key) }
	}
	return func() message { return kmsg.ResponseForKey(key) }
}

func print(w *bufio.Writer, name string, version int16, variant string, data []byte) {
	fmt.Fprintf(w, "%s %d %s x%s\n", name, version, variant, hex.EncodeToString(data))
}

// consumerProtocol has its version in its first two bytes, which the schema leaves to its user.
func consumerProtocol(w *bufio.Writer, variant string) {
	for version := int16(0); version <= 3; version++ {
		f := &filler{variant: variant, version: version}
		var sub kmsg.ConsumerMemberMetadata
		f.structure(reflect.ValueOf(&sub).Elem())
		print(w, "ConsumerProtocolSubscription", version, variant, sub.AppendTo(nil)[2:])
		var as kmsg.ConsumerMemberAssignment
		f.structure(reflect.ValueOf(&as).Elem())
		print(w, "ConsumerProtocolAssignment", version, variant, as.AppendTo(nil)[2:])
	}
}

func main() {
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var name string
		var min, max, key int16
		if _, err := fmt.Sscan(in.Text(), &name, &min, &max, &key); err != nil {
			panic(err)
		}
		if name == "ConsumerProtocolSubscription" {
			consumerProtocol(w, "full")
			consumerProtocol(w, "null")
		}
		make := maker(name, key)
		if make == nil {
			continue
		}
		for version := min; version <= max && version <= make().MaxVersion(); version++ {
			for _, variant := range []string{"full", "null", "unknown"} {
				m := make()
				f := &filler{variant: variant, version: version}
				f.structure(reflect.ValueOf(m).Elem())
				m.SetVersion(version)
				if variant != "unknown" || m.IsFlexible() {
					print(w, name, version, variant, m.AppendTo(nil))
				}
			}
		}
	}
}
