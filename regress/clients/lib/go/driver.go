// Package driver is the Go side of the driver protocol (see ../../README.md): commands in, one JSON object a line; answers
// out, the same.
package driver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Command is every field that some command has.
type Command struct {
	Op         string            `json:"op"`
	Topic      string            `json:"topic"`
	Partitions int               `json:"partitions"`
	Partition  int32             `json:"partition"`
	Config     map[string]string `json:"config"`
	Codec      string            `json:"codec"`
	Acks       int               `json:"acks"`
	Idempotent bool              `json:"idempotent"`
	Records    string            `json:"records"`
	From       map[string]int64  `json:"from"`
	To         map[string]int64  `json:"to"`
	Out        string            `json:"out"`
	At         any               `json:"at"`
	Group      string            `json:"group"`
	Assignor   string            `json:"assignor"`
	Session    int               `json:"session"`
}

// Answer is what a handler returns; nil is an empty one.
type Answer map[string]any

// Header is one header of a record; a nil value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record to produce; nil Key and Value are null, Timestamp 0 is now.
type Record struct {
	Partition  int32
	Key, Value []byte
	Headers    []Header
	Timestamp  int64
}

// Bootstrap is the address to connect to.
func Bootstrap() string { return os.Getenv("BOOTSTRAP") }

// Emit prints one event of a group's member: assigned, revoked or records; a generation of -1 is not known.
type Emit func(kind string, partitions any, generation int32, offsets []int64)

// Member is the group command, which has no answer: it emits what happens to a group's member until the context ends.
type Member func(context.Context, Command, Emit) error

func runMember(member Member, c Command, in *bufio.Reader, out *json.Encoder) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	var lock sync.Mutex
	err := member(ctx, c, func(kind string, partitions any, generation int32, offsets []int64) {
		event := Answer{"e": kind, "p": partitions, "g": nil, "o": offsets, "t": float64(time.Now().UnixMilli()) / 1000}
		if generation >= 0 {
			event["g"] = generation
		}
		lock.Lock()
		defer lock.Unlock()
		_ = out.Encode(event)
	})
	if err != nil {
		_ = out.Encode(Answer{"e": "error", "error": err.Error()})
	}
	_ = out.Encode(Answer{"e": "left"})
}

// Serve answers commands until standard input ends.
func Serve(handlers map[string]func(Command) (Answer, error), member Member) {
	in := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // what a library prints must not look like an answer
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var c Command
		if err := json.Unmarshal(line, &c); err != nil {
			panic(err)
		}
		if c.Op == "group" && member != nil {
			runMember(member, c, in, out)
			return
		}
		handle, known := handlers[c.Op]
		answer := Answer{}
		if !known {
			answer = Answer{"error": "no such command: " + c.Op}
		} else if a, err := handle(c); err != nil {
			answer = Answer{"error": err.Error()}
		} else if a != nil {
			answer = a
		}
		if err := out.Encode(answer); err != nil {
			return
		}
	}
}

// Version is the version of a module that this program was built with.
func Version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "?"
}

// ReadRecords reads the file of a produce command.
func ReadRecords(path string) ([]Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var records []Record
	for _, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var row struct {
			P    int32
			K, V *[]byte
			H    [][2]any
			T    *int64
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, err
		}
		r := Record{Partition: row.P}
		if row.K != nil {
			r.Key = append([]byte{}, *row.K...)
		}
		if row.V != nil {
			r.Value = append([]byte{}, *row.V...)
		}
		if row.T != nil {
			r.Timestamp = *row.T
		}
		for _, h := range row.H {
			header := Header{Key: h[0].(string)}
			if text, ok := h[1].(string); ok {
				quoted, _ := json.Marshal(text)
				header.Value = []byte{}
				if err := json.Unmarshal(quoted, &header.Value); err != nil {
					return nil, err
				}
			}
			r.Headers = append(r.Headers, header)
		}
		records = append(records, r)
	}
	return records, nil
}

func show(data []byte) string {
	switch {
	case data == nil:
		return "-"
	case len(data) <= 64:
		return "x" + hex.EncodeToString(data)
	default:
		return fmt.Sprintf("#%d:%x", len(data), sha256.Sum256(data))
	}
}

// Canonical is the line that a consume command writes for a record.
func Canonical(partition int32, offset, timestamp int64, key, value []byte, headers []Header) string {
	pairs := make([]string, len(headers))
	for i, h := range headers {
		pairs[i] = hex.EncodeToString([]byte(h.Key)) + "=" + show(h.Value)
	}
	text := strings.Join(pairs, ";")
	if text == "" {
		text = "."
	}
	return fmt.Sprintf("%d %d %d %s %s %s\n", partition, offset, timestamp, show(key), show(value), text)
}

// Range is the part of a partition that a consume command reads: From inclusive, To exclusive.
type Range struct {
	Partition int32
	From, To  int64
}

// Ranges lists what a consume command reads, without what is empty.
func Ranges(c Command) []Range {
	var ranges []Range
	for p, to := range c.To {
		n, _ := strconv.Atoi(p)
		if from := c.From[p]; from < to {
			ranges = append(ranges, Range{int32(n), from, to})
		}
	}
	return ranges
}

// Timestamp is the at of an offsets command as ListOffsets has it.
func Timestamp(c Command) int64 {
	switch at := c.At.(type) {
	case float64:
		return int64(at)
	case string:
		if at == "earliest" {
			return -2
		}
	}
	return -1
}
