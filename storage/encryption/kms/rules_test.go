package kms_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/keelson-dev/keelson/storage/encryption/aes"
	"github.com/keelson-dev/keelson/storage/encryption/kms"
)

// part is a field of a message as it is written, with its tag.
type part struct {
	number protowire.Number
	raw    string
}

// parts takes an envelope apart.
func parts(t *testing.T, sealed []byte) (all []part) {
	t.Helper()
	for len(sealed) > 0 {
		n, _, size := protowire.ConsumeField(sealed)
		if size < 0 {
			t.Fatalf("%q is no message", sealed)
		}
		all = append(all, part{n, string(sealed[:size])})
		sealed = sealed[size:]
	}
	return all
}

func join(all ...part) string {
	var s strings.Builder
	for _, p := range all {
		s.WriteString(p.raw)
	}
	return s.String()
}

func bytesField(n protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), value))
}

func varint(n protowire.Number, value uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), value))
}

// strange are fields that no envelope has, of each type that there is.
func strange() string {
	fixed32 := string(protowire.AppendFixed32(protowire.AppendTag(nil, 13, protowire.Fixed32Type), 1))
	fixed64 := string(protowire.AppendFixed64(protowire.AppendTag(nil, 14, protowire.Fixed64Type), 1))
	group := string(protowire.AppendGroup(protowire.AppendTag(nil, 15, protowire.StartGroupType), 15, []byte(varint(1, 1))))
	return varint(11, 7) + bytesField(12, "x") + fixed32 + fixed64 + group
}

// TestOtherWriters: an envelope is what protobuf says, not the bytes that this package writes: in any order, with fields of later
// versions, the last of several counting. One that was tampered with is refused, also where the seed is known.
func TestOtherWriters(t *testing.T) {
	f := newFake()
	sealed := seal(t, kms.New("vault", f, kms.Options{}), "value")
	all := parts(t, sealed)
	if len(all) != 6 || all[0].number != 1 || all[5].number != 5 {
		t.Fatalf("unexpected parts %q", all)
	}
	back := slices.Clone(all)
	slices.Reverse(back)
	a, b := all[3].raw, all[4].raw // annotations
	const encoding, utf8 = "proto: cannot parse invalid wire-format data", "string field contains invalid UTF-8"
	for name, c := range map[string]struct{ stored, want string }{
		"as it was":                    {string(sealed), ""},
		"the other way round":          {join(back...), ""},
		"other fields before":          {strange() + string(sealed), ""},
		"other fields behind":          {string(sealed) + strange(), ""},
		"numbers for bytes":            {string(sealed) + varint(1, 1) + varint(2, 1) + varint(3, 1) + varint(4, 1), ""},
		"bytes for a number":           {string(sealed) + bytesField(5, "x"), ""},
		"two of each":                  {bytesField(1, "x") + bytesField(2, "y") + bytesField(3, "z") + varint(5, 0) + string(sealed), ""},
		"more than the enum has":       {join(all[:5]...) + varint(5, 1<<32|1), ""},
		"another annotation":           {string(sealed) + bytesField(4, bytesField(1, "c.example.com")), ""},
		"an annotation again":          {join(all[:3]...) + bytesField(4, bytesField(1, "a.example.com")+bytesField(2, "0")) + a + b + all[5].raw, ""},
		"fields in an annotation":      {join(all[:3]...) + bytesField(4, strange()+bytesField(1, "a.example.com")+bytesField(2, "1")+varint(1, 1)+varint(2, 1)+bytesField(3, "x")) + b + all[5].raw, ""},
		"another data field":           {bytesField(7, "x") + join(all[1:]...), "encrypted data is empty"},
		"its data under another field": {string(append([]byte{7<<3 | 2}, sealed[1:]...)), "encrypted data is empty"},
		"its data as a number":         {string(append([]byte{1 << 3}, sealed[1:]...)), "*"},
		"no data":                      {join(all[1:]...), "encrypted data is empty"},
		"empty data":                   {bytesField(1, "") + join(all[1:]...), "encrypted data is empty"},
		"no field number":              {string(sealed) + "\x02", encoding},
		"a field that ends early":      {string(sealed) + "\x0a\x05x", encoding},
		"an endless length":            {"\x0a" + strings.Repeat("\xff", 10) + "\x01", encoding},
		"an open group":                {string(sealed) + "\x7b", encoding},
		"an annotation cut off":        {string(sealed) + bytesField(4, "\x0a\x05x"), encoding},
		"a binary annotation":          {string(sealed) + bytesField(4, bytesField(1, "\xff.example.com")), utf8},
		"a nameless annotation":        {string(sealed) + bytesField(4, bytesField(2, "x")), "*"},
		"an annotation for numbers":    {join(all[:3]...) + bytesField(4, bytesField(1, "a.example.com")+varint(2, 1)) + b + all[5].raw, "failed to decrypt DEK, error: " + errWrongKey.Error()},
		"another kind":                 {join(all[:5]...) + varint(5, 2), "unknown encryptedDEKSourceType: 2"},
		"a negative kind":              {join(all[:5]...) + varint(5, 1<<64-1), "unknown encryptedDEKSourceType: -1"},
	} {
		t.Run(name, func(t *testing.T) {
			knowing := kms.New("vault", f, kms.Options{})
			if _, _, err := knowing.Open(t.Context(), at, sealed); err != nil {
				t.Fatal(err)
			}
			for who, p := range map[string]*kms.Provider{"knowing": knowing, "new": kms.New("vault", f, kms.Options{})} {
				for range 2 {
					value, _, err := p.Open(t.Context(), at, []byte(c.stored))
					switch {
					case c.want == "" && (err != nil || string(value) != "value"):
						t.Errorf("%s: %q, %v", who, value, err)
					case c.want != "" && (err == nil || value != nil || c.want != "*" && err.Error() != c.want):
						t.Errorf("%s: %q, %v; want %s", who, value, err, c.want)
					}
				}
			}
		})
	}
}

// TestOneQuestionForEachSource: however an envelope is written, its source is decrypted once.
func TestOneQuestionForEachSource(t *testing.T) {
	f := newFake()
	all := parts(t, seal(t, kms.New("vault", f, kms.Options{}), "value"))
	slices.Reverse(all)
	p := kms.New("vault", f, kms.Options{})
	for range 3 {
		wantOpen(t, p, []byte(join(all...)), "value", false)
	}
	if f.decrypted() != 1 {
		t.Errorf("decrypted %d times", f.decrypted())
	}
}

// TestSourceIsTheKey: values of before seeds are read, and are stale.
func TestSourceIsTheKey(t *testing.T) {
	f := newFake()
	p := kms.New("vault", f, kms.Options{})
	if err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := []byte("0123456789abcdef0123456789abcdef")
	gcm, err := aes.NewGCM(key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := gcm.Seal(t.Context(), nil, at, []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	annotation := bytesField(4, bytesField(1, "a.example.com")+bytesField(2, "1"))
	old := func(source string) []byte {
		return []byte(bytesField(1, string(data)) + bytesField(2, "key-1") + bytesField(3, "key-1|"+source) + annotation)
	}
	wantOpen(t, p, old(string(key)), "value", true)
	if _, _, err := p.Open(t.Context(), at, old("too short")); err == nil || strings.Contains(err.Error(), "failed to decrypt DEK") {
		t.Errorf("a key of nine bytes: %v", err)
	}
}

// TestBounds: a plugin may give as much as upstream takes.
func TestBounds(t *testing.T) {
	for name, change := range map[string]func(*fake){
		"key ID": func(f *fake) { f.status.KeyID = strings.Repeat("k", 1024) },
		"source": func(*fake) {},
		"annotations": func(f *fake) {
			f.encrypt = func(s kms.Sealed) kms.Sealed {
				s.Annotations = map[string][]byte{"a.example.com": make([]byte, 32<<10-13)}
				return s
			}
		},
	} {
		f := newFake()
		f.encrypt = func(s kms.Sealed) kms.Sealed { s.Ciphertext = make([]byte, 1024); return s }
		change(f)
		p := kms.New("vault", f, kms.Options{})
		if err := p.Check(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wantOpen(t, p, seal(t, p, "value"), "value", false)
	}
}

// TestForgotten: what a source gave is kept for a day after it was last used, and swept out hourly at most.
func TestForgotten(t *testing.T) {
	const hour = time.Hour
	for name, c := range map[string]struct {
		uses, puts []time.Duration // of the value that counts, and of others, each with a source of its own
		at         time.Duration
		asked      int // at last
	}{
		"in use":                       {[]time.Duration{0, 9 * hour}, []time.Duration{32 * hour}, 32 * hour, 0},
		"used an hour later":           {[]time.Duration{0, hour}, []time.Duration{25 * hour}, 25 * hour, 0},
		"out of use":                   {[]time.Duration{0}, []time.Duration{25 * hour}, 25 * hour, 1},
		"out of use for exactly a day": {[]time.Duration{0}, []time.Duration{24 * hour}, 24 * hour, 0},
		"swept twice":                  {[]time.Duration{0}, []time.Duration{23 * hour, 25 * hour}, 25 * hour, 1},
		"swept just before":            {[]time.Duration{0}, []time.Duration{23*hour + 30*time.Minute, 24*hour + 10*time.Minute}, 25 * hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				fresh := func() []byte { return seal(t, kms.New("vault", f, kms.Options{}), "value") }
				sealed, p, start := fresh(), kms.New("vault", f, kms.Options{}), time.Now()
				for _, use := range c.uses {
					time.Sleep(use - time.Since(start))
					wantOpen(t, p, sealed, "value", false)
				}
				for _, put := range c.puts {
					time.Sleep(put - time.Since(start))
					wantOpen(t, p, fresh(), "value", false)
				}
				time.Sleep(c.at - time.Since(start))
				before := f.decrypted()
				wantOpen(t, p, sealed, "value", false)
				if asked := f.decrypted() - before; asked != c.asked {
					t.Errorf("asked %d times, want %d", asked, c.asked)
				}
			})
		})
	}
}

// TestAnswersAgain: the first answer ends the pause after a failure.
func TestAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		one, two := seal(t, kms.New("vault", f, kms.Options{}), "one"), seal(t, kms.New("vault", f, kms.Options{}), "two")
		p := kms.New("vault", f, kms.Options{})
		f.set(func(f *fake) { f.takes = time.Second })
		done := make(chan struct{})
		go func() {
			defer close(done)
			wantOpen(t, p, one, "one", false)
		}()
		synctest.Wait()
		f.set(func(f *fake) { f.takes, f.down = 0, errDown })
		if _, _, err := p.Open(t.Context(), at, two); !errors.Is(err, kms.ErrUnavailable) {
			t.Errorf("Open: %v", err)
		}
		f.set(func(f *fake) { f.down = nil })
		if _, _, err := p.Open(t.Context(), at, two); err == nil || !strings.Contains(err.Error(), "not asked again yet: ") || !errors.Is(err, kms.ErrUnavailable) {
			t.Errorf("Open in the pause: %v", err)
		}
		<-done
		wantOpen(t, p, two, "two", false)
	})
}

// TestWritesDoNotWait: while there is a seed to write with, nobody is asked, whatever the plugin does, and for three minutes exactly.
func TestWritesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		p := kms.New("vault", f, kms.Options{})
		start := time.Now()
		first := seal(t, p, "value")
		f.set(func(f *fake) { f.takes, f.down = 2*time.Second, errDown })
		for _, when := range []time.Duration{time.Minute, 3 * time.Minute} {
			time.Sleep(when - time.Since(start))
			wantOpen(t, p, seal(t, p, "value"), "value", false)
			if waited := time.Since(start) - when; waited != 0 || f.statuses != 1 {
				t.Errorf("a write waited for %v, %d statuses", waited, f.statuses)
			}
		}
		time.Sleep(time.Nanosecond)
		if _, err := p.Seal(t.Context(), nil, at, nil); !errors.Is(err, kms.ErrUnavailable) || !strings.Contains(err.Error(), "expired at "+start.Add(3*time.Minute).Format(time.RFC3339)+" (current time is ") {
			t.Errorf("after three minutes: %v", err)
		}
		f.set(func(f *fake) { f.takes, f.down = 0, nil })
		time.Sleep(time.Minute)
		prolonged := time.Now()
		if again := seal(t, p, "value"); join(parts(t, again)[1:]...) != join(parts(t, first)[1:]...) {
			t.Error("another seed, although the key is the same")
		}
		f.set(func(f *fake) { f.down = errDown })
		time.Sleep(3*time.Minute - time.Since(prolonged))
		seal(t, p, "value")
		time.Sleep(time.Nanosecond)
		if _, err := p.Seal(t.Context(), nil, at, nil); !errors.Is(err, kms.ErrUnavailable) {
			t.Errorf("three minutes after it was prolonged: %v", err)
		}
	})
}

// odd is a plugin some of whose calls are different.
type odd struct {
	*fake
	status  func()
	encrypt error
}

func (o *odd) Status(ctx context.Context) (kms.Status, error) {
	if o.status != nil {
		o.status()
	}
	return o.fake.Status(ctx)
}

func (o *odd) Encrypt(ctx context.Context, uid string, plaintext []byte) (kms.Sealed, error) {
	if o.encrypt != nil {
		return kms.Sealed{}, o.encrypt
	}
	return o.fake.Encrypt(ctx, uid, plaintext)
}

// TestNoSeed: a plugin that tells of its key but does not encrypt with it is not well.
func TestNoSeed(t *testing.T) {
	o := &odd{fake: newFake(), encrypt: errors.New("sealed off")}
	p := kms.New("vault", o, kms.Options{})
	if err := p.Check(t.Context()); !errors.Is(err, o.encrypt) || !strings.Contains(err.Error(), "failed to encrypt DEK, error: sealed off") {
		t.Errorf("Check: %v", err)
	}
	if _, err := p.Seal(t.Context(), nil, at, nil); !errors.Is(err, o.encrypt) || !strings.HasPrefix(err.Error(), "KMS provider vault has given no key to encrypt with yet: ") {
		t.Errorf("Seal: %v", err)
	}
}

// TestGoodAnswerOfAnImpatientCaller: it counts, whatever became of who asked.
func TestGoodAnswerOfAnImpatientCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := &odd{fake: newFake(), status: cancel}
		p := kms.New("vault", o, kms.Options{})
		if err := p.Check(ctx); err != nil {
			t.Errorf("Check: %v", err)
		}
		for i, wait := range []time.Duration{0, 20*time.Second - 1, 1} {
			time.Sleep(wait)
			if err := p.Check(t.Context()); err != nil || o.statuses != 1+i/2 {
				t.Errorf("%v later: asked %d times, %v", wait, o.statuses, err)
			}
		}
	})
}

// messages notes what is logged.
type messages struct {
	slog.Handler
	mu  sync.Mutex
	all []string
}

func (m *messages) Handle(_ context.Context, r slog.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, r.Level.String()+" "+r.Message)
	return nil
}

func (m *messages) WithAttrs([]slog.Attr) slog.Handler { return m }

// take returns what was logged since it was called last.
func (m *messages) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.all
	m.all = nil
	return all
}

// TestPolls: Run asks every minute, or every ten seconds while the plugin is not well, and says what changed.
func TestPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, f := &messages{Handler: slog.NewTextHandler(io.Discard, nil)}, newFake()
		stop := running(t, kms.New("vault", f, kms.Options{Logger: slog.New(log)}))
		defer stop()
		const seed, bad, good = "INFO new seed", "WARN KMS plugin failed its health check", "INFO KMS plugin is well again"
		for i, step := range []struct {
			change func(*fake)
			lasts  time.Duration
			asked  int
			log    []string
		}{
			{func(*fake) {}, 59 * time.Second, 1, []string{seed}},
			{func(*fake) {}, 2 * time.Minute, 2, nil},
			{func(f *fake) { f.down = errDown }, time.Minute, 6, []string{bad, bad, bad, bad, bad, bad}},
			{func(f *fake) { f.down = nil }, time.Minute, 1, []string{good}},
			{func(f *fake) { f.status.KeyID = "key-2" }, time.Minute, 1, []string{seed}},
			{func(*fake) {}, 10 * time.Minute, 10, nil},
		} {
			f.set(func(f *fake) { f.statuses = map[bool]int{true: 1, false: 0}[i == 0]; step.change(f) })
			time.Sleep(step.lasts)
			synctest.Wait()
			asked, logged := 0, log.take()
			if f.set(func(f *fake) { asked = f.statuses }); asked != step.asked || !slices.Equal(logged, step.log) {
				t.Errorf("step %d: asked %d times, want %d; logged %q, want %q", i, asked, step.asked, logged, step.log)
			}
		}
	})
}

// TestImpatientCallers: who does not wait hears so, be it for the plugin or for another who asks it.
func TestImpatientCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.takes = time.Second
		p := kms.New("vault", f, kms.Options{})
		impatient := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			return p.Check(ctx)
		}
		if err := impatient(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("alone: %v", err)
		}
		done := make(chan error)
		go func() { done <- p.Check(t.Context()) }()
		synctest.Wait()
		if err := impatient(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("behind another: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("the other: %v", err)
		}
	})
}
