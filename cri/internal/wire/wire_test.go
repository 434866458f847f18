package wire_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/internal/wire"
)

// filler fills values of package cri with what CRI can say. With full set nothing stays zero.
type filler struct {
	*rand.Rand
	full bool
}

func (f filler) fill(v reflect.Value) {
	if !f.full && f.IntN(4) == 0 {
		return
	}
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(0, 1+f.Int64N(1<<62))))
		return
	case cri.ContainerState, cri.MountPropagation, cri.ProfileType:
		v.SetInt(1 + f.Int64N(2))
		return
	case cri.NamespaceMode, cri.EventType:
		v.SetInt(1 + f.Int64N(3))
		return
	case cri.SandboxState, cri.SupplementalGroupsPolicy, cri.CgroupDriver:
		v.SetInt(1)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.field(v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		length := 1 + f.IntN(3)
		if f.full {
			length = 2
		}
		v.Set(reflect.MakeSlice(v.Type(), length, length))
		for i := range length {
			f.fill(v.Index(i))
			if s := v.Index(i); s.Kind() == reflect.String && s.Len() == 0 {
				s.SetString("one") // an address is never empty
			}
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{fmt.Sprint(f.IntN(9)): "value", "": "ü"}))
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", f.IntN(1000)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1 + f.Int64N(1<<31-1))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(1 + uint64(f.UintN(255)))
	case reflect.Float64:
		v.SetFloat(1 + f.Float64())
	default:
		panic(v.Type())
	}
}

func (f filler) field(name string, v reflect.Value) {
	switch name {
	case "Protocol":
		v.SetString([]string{"UDP", "SCTP"}[f.IntN(2)])
	case "StopSignal":
		v.SetString([]string{"SIGTERM", "SIGRTMIN", "SIGRTMIN+3", "SIGRTMAX-1"}[f.IntN(4)])
	default:
		f.fill(v)
	}
}

// mapping is one type's way to its message and back.
type mapping struct {
	name  string
	value any // zero
	// trip encodes and decodes; both ends are pointers' targets.
	trip func(t *testing.T, in any) (proto.Message, any)
}

func mapped[A any, M proto.Message](encode func(A) M, decode func(M) A) mapping {
	var zero A
	return mapping{name: reflect.TypeFor[A]().String(), value: zero, trip: func(_ *testing.T, in any) (proto.Message, any) {
		a, _ := in.(A)
		message := encode(a)
		return message, decode(message)
	}}
}

func mappings() []mapping {
	return []mapping{
		mapped(wire.EncodeSandboxConfig, func(m *v1.PodSandboxConfig) cri.SandboxConfig { return wire.DecodeSandboxConfig(m, "handler") }),
		mapped(wire.EncodeSandbox, wire.DecodeSandbox),
		mapped(wire.EncodeSandboxStatus, wire.DecodeSandboxStatus),
		mapped(func(c cri.ContainerConfig) *v1.ContainerConfig {
			m, err := wire.EncodeContainerConfig(c)
			if err != nil {
				panic(err)
			}
			return m
		}, wire.DecodeContainerConfig),
		mapped(wire.EncodeContainer, wire.DecodeContainer),
		mapped(wire.EncodeContainerStatus, wire.DecodeContainerStatus),
		mapped(wire.EncodeImage, wire.DecodeImage),
		mapped(wire.EncodeAuth, wire.DecodeAuth),
		mapped(wire.EncodeStatus, wire.DecodeStatus),
		mapped(wire.EncodeEvent, wire.DecodeEvent),
		mapped(wire.EncodeContainerStats, wire.DecodeContainerStats),
		mapped(wire.EncodeSandboxStats, wire.DecodeSandboxStats),
		mapped(wire.EncodeContainerFilter, wire.DecodeContainerFilter),
		mapped(wire.EncodeContainerStatsFilter, wire.DecodeContainerStatsFilter),
	}
}

// normal takes away what no message carries and what means the same either way.
func normal(v any) any {
	switch v := v.(type) {
	case cri.SandboxConfig:
		v.RuntimeHandler = "handler" // it travels beside the message
		for i := range v.Ports {
			if v.Ports[i].Protocol == "" {
				v.Ports[i].Protocol = "TCP"
			}
		}
		return v
	case cri.ContainerStatus:
		v.SandboxID = "" // CRI tells it in lists only
		return v
	case cri.ContainerStats:
		known(&v)
		return v
	case cri.SandboxStats:
		knownUsage(&v.CPU, &v.Memory)
		if v.IO.At.IsZero() {
			v.IO = cri.IOUsage{}
		}
		for i := range v.Containers {
			known(&v.Containers[i])
		}
		return v
	}
	return v
}

func known(s *cri.ContainerStats) {
	knownUsage(&s.CPU, &s.Memory)
	if s.WritableLayer.At.IsZero() {
		s.WritableLayer = cri.FilesystemUsage{}
	}
	if s.Swap.At.IsZero() {
		s.Swap = cri.SwapUsage{}
	}
	if s.IO.At.IsZero() {
		s.IO = cri.IOUsage{}
	}
}

// knownUsage drops figures without a time: they are not known.
func knownUsage(cpu *cri.CPUUsage, memory *cri.MemoryUsage) {
	if cpu.At.IsZero() {
		*cpu = cri.CPUUsage{}
	}
	if !cpu.NanoCoresMeasured {
		cpu.NanoCores = 0
	}
	if memory.At.IsZero() {
		*memory = cri.MemoryUsage{}
	}
}

// TestIdentity: what goes over the wire arrives as it was sent.
func TestIdentity(t *testing.T) {
	for _, m := range mappings() {
		t.Run(m.name, func(t *testing.T) {
			for seed := range uint64(300) {
				f := filler{rand.New(rand.NewPCG(seed, 1)), seed == 0}
				in := reflect.New(reflect.TypeOf(m.value)).Elem()
				f.fill(in)
				message, got := m.trip(t, in.Interface())
				if want := normal(in.Interface()); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d:\nsent     %+v\nreceived %+v\nmessage  %v", seed, want, got, message)
				}
				if !message.ProtoReflect().IsValid() {
					continue // nil
				}
				raw, err := proto.Marshal(message)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				again := message.ProtoReflect().New().Interface()
				if err := proto.Unmarshal(raw, again); err != nil || !proto.Equal(message, again) {
					t.Fatalf("seed %d: the message does not survive its encoding: %v", seed, err)
				}
			}
		})
	}
}

// leftOut are the fields of the messages that package cri has no words for.
func leftOut() map[string]string {
	return map[string]string{
		"PodSandboxConfig.windows":                           "nodes are Linux",
		"ContainerConfig.windows":                            "nodes are Linux",
		"ContainerResources.windows":                         "nodes are Linux",
		"PodSandboxStats.windows":                            "nodes are Linux",
		"LinuxSandboxSecurityContext.seccomp_profile_path":   "deprecated",
		"LinuxContainerSecurityContext.apparmor_profile":     "deprecated",
		"LinuxContainerSecurityContext.seccomp_profile_path": "deprecated",
		"ContainerFilter.state":                              "nobody asks for it; cri/serve applies it",
		"Image.spec":                                         "annotations and runtime handler of an image, alpha",
		"ContainerEventResponse.containers_statuses":         "an event is a hint to look",
		"StatusResponse.info":                                "for people who debug a runtime",
		// Of the sandbox in an event only the metadata counts.
		"PodSandboxStatus in event": "",
	}
}

// TestNothingIsForgotten holds the mapping to the messages: a field that stays empty when every
// field of the value is set is either in the list above or a mistake, such as a field that a new
// version of CRI has brought.
func TestNothingIsForgotten(t *testing.T) {
	known, used := leftOut(), map[string]bool{"PodSandboxStatus in event": true}
	for _, m := range mappings() {
		in := reflect.New(reflect.TypeOf(m.value)).Elem()
		filler{rand.New(rand.NewPCG(1, 1)), true}.fill(in)
		message, _ := m.trip(t, in.Interface())
		if event, ok := message.(*v1.ContainerEventResponse); ok {
			if event.PodSandboxStatus.GetMetadata() == nil {
				t.Error("an event without its sandbox")
			}
			event.PodSandboxStatus, _ = mappings()[2].trip1(t)
		}
		unset(message.ProtoReflect(), func(field string) {
			if _, ok := known[field]; !ok {
				t.Errorf("%s does not fill %s", m.name, field)
			}
			used[field] = true
		})
	}
	for field := range known {
		if !used[field] {
			t.Errorf("%s is mapped: it is not left out", field)
		}
	}
}

// trip1 is the message of a full value.
func (m mapping) trip1(t *testing.T) (*v1.PodSandboxStatus, any) {
	in := reflect.New(reflect.TypeOf(m.value)).Elem()
	filler{rand.New(rand.NewPCG(1, 1)), true}.fill(in)
	message, out := m.trip(t, in.Interface())
	status, _ := message.(*v1.PodSandboxStatus)
	return status, out
}

// unset tells the fields of a message, and of those within, that are not set.
func unset(m protoreflect.Message, tell func(string)) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !m.Has(field) {
			tell(fmt.Sprintf("%s.%s", m.Descriptor().Name(), field.Name()))
			continue
		}
		if field.Kind() != protoreflect.MessageKind || field.IsMap() {
			continue
		}
		if !field.IsList() {
			unset(m.Get(field).Message(), tell)
			continue
		}
		for list, at := m.Get(field).List(), 0; at < list.Len(); at++ {
			unset(list.Get(at).Message(), tell)
		}
	}
}

func TestSignals(t *testing.T) {
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range v1.Signal_value {
			if !yield(name) {
				return
			}
		}
	})
	for _, name := range names {
		message := &v1.ContainerConfig{StopSignal: v1.Signal(v1.Signal_value[name])}
		config := wire.DecodeContainerConfig(message)
		if strings.Contains(config.StopSignal, "PLUS") || strings.Contains(config.StopSignal, "MINUS") {
			t.Errorf("%s is called %s", name, config.StopSignal)
		}
		back, err := wire.EncodeContainerConfig(config)
		if err != nil || back.GetStopSignal() != message.GetStopSignal() {
			t.Errorf("%s became %q and then %s, %v", name, config.StopSignal, back.GetStopSignal(), err)
		}
	}
	for _, name := range []string{"TERM", "SIGNOSUCH", "_RUNTIME_DEFAULT", "9"} {
		_, err := wire.EncodeContainerConfig(cri.ContainerConfig{Process: cri.Process{StopSignal: name}})
		if !errors.Is(err, cri.ErrInvalid) {
			t.Errorf("signal %q: %v", name, err)
		}
	}
}

// TestStrangeMessages: what runtimes leave out or make up does no harm.
func TestStrangeMessages(t *testing.T) {
	if s := wire.DecodeContainerStatus(&v1.ContainerStatus{StartedAt: time.Time{}.UnixNano(), State: 77}); !s.StartedAt.IsZero() || s.State != cri.ContainerUnknown {
		t.Errorf("started at %v, %s", s.StartedAt, s.State)
	}
	if s := wire.DecodeSandbox(&v1.PodSandbox{State: 9}); s.State != cri.SandboxNotReady {
		t.Errorf("state %d", s.State)
	}
	if s := wire.DecodeStatus(nil); s.Runtime.Ready || s.Network.Ready || s.Network.Message == "" {
		t.Errorf("status %+v", s)
	}
	for _, zero := range []bool{
		reflect.DeepEqual(wire.DecodeContainerStats(nil), cri.ContainerStats{}),
		reflect.DeepEqual(wire.DecodeSandboxStats(nil), cri.SandboxStats{}),
		reflect.DeepEqual(wire.DecodeContainerConfig(nil), cri.ContainerConfig{}),
		reflect.DeepEqual(wire.DecodeSandboxConfig(nil, ""), cri.SandboxConfig{}),
		reflect.DeepEqual(wire.DecodeSandboxStatus(nil), cri.SandboxStatus{Sandbox: cri.Sandbox{State: cri.SandboxReady}}),
		reflect.DeepEqual(wire.DecodeImage(nil), cri.Image{}),
		wire.DecodeAuth(nil) == nil,
	} {
		if !zero {
			t.Error("nothing was decoded to something")
		}
	}
}

func TestErrors(t *testing.T) {
	for _, kind := range []error{
		cri.ErrNotFound, cri.ErrUnavailable, cri.ErrInvalid, cri.ErrUnsupported, cri.ErrEventsLost,
		cri.ErrRegistryUnavailable, cri.ErrSignatureValidation, context.DeadlineExceeded, context.Canceled,
	} {
		sent := wire.EncodeError(fmt.Errorf("container %q: %w", "a", kind))
		got := wire.DecodeError(sent)
		if !errors.Is(got, kind) || !strings.HasPrefix(got.Error(), "rpc error: code = ") {
			t.Errorf("%v arrived as %v", kind, got)
		}
		if d := cri.Description(got); !strings.HasSuffix(d, `container "a": `+kind.Error()) || strings.Contains(d, "rpc error") {
			t.Errorf("%v is described as %q", kind, d)
		}
		if code := status.Code(got); code != status.Code(sent) {
			t.Errorf("%v: code %s", kind, code)
		}
	}
	for _, s := range []error{status.Error(codes.Unknown, "odd"), status.Error(codes.AlreadyExists, "there"), status.Error(codes.Internal, "broken")} {
		if got := wire.DecodeError(s); got.Error() != s.Error() {
			t.Errorf("%v became %v", s, got)
		}
	}
	if wire.EncodeError(nil) != nil || wire.DecodeError(nil) != nil {
		t.Error("nil is an error")
	}
	if got := wire.EncodeError(errors.New("odd")); status.Code(got) != codes.Unknown {
		t.Errorf("an error without a name: %v", got)
	}
}

// FuzzContainerConfig: whatever arrives can be read, and a reading says the same when it is sent on.
func FuzzContainerConfig(f *testing.F) {
	message, err := wire.EncodeContainerConfig(cri.ContainerConfig{LogPath: "a/0.log", Process: cri.Process{Args: []string{"x"}}})
	if err != nil {
		f.Fatal(err)
	}
	raw, err := proto.Marshal(message)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var message v1.ContainerConfig
		if proto.Unmarshal(raw, &message) != nil {
			return
		}
		read := wire.DecodeContainerConfig(&message)
		again, err := wire.EncodeContainerConfig(read)
		if err != nil {
			t.Fatalf("%v is not encoded: %v", read, err)
		}
		if reread := wire.DecodeContainerConfig(again); !reflect.DeepEqual(read, reread) {
			t.Fatalf("%+v became %+v", read, reread)
		}
	})
}
