package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/podspec/origin"
)

// office is a Client that keeps pods, and records each request with the milliseconds since the start and the message
// in the status.
type office struct {
	Client
	s       *sender
	start   time.Time
	pods    map[types.NamespacedName]*corev1.Pod
	version int
	lines   []string
	fails   int    // so many requests fail
	err     error  // with this
	during  func() // called once, when the next request comes
	after   func() // called once, before the next patch is answered
}

// withOffice runs a test with a sender that uses such a client.
func withOffice(t *testing.T, test func(o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &office{start: time.Now(), pods: map[types.NamespacedName]*corev1.Pod{}, err: errors.New("no answer")}
		o.s = newSender(o, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { o.s.run(ctx); close(done) }()
		test(o)
		cancel()
		<-done
	})
}

// put stores a pod, as the API server does, and returns it.
func (o *office) put(pod *corev1.Pod) *corev1.Pod {
	o.version++
	pod = pod.DeepCopy()
	pod.ResourceVersion = fmt.Sprint(o.version)
	o.pods[nameOf(pod)] = pod
	return pod
}

func (o *office) request(verb, what string) error {
	o.lines = append(o.lines, fmt.Sprintf("%d %s %s", time.Since(o.start).Milliseconds(), verb, what))
	if during := o.during; during != nil {
		o.during = nil
		during()
	}
	if o.fails > 0 {
		o.fails--
		return o.err
	}
	return nil
}

func (o *office) Get(_ context.Context, t client.Target) (apiruntime.Object, error) {
	if err := o.request("get", t.Name); err != nil {
		return nil, err
	}
	if pod := o.pods[types.NamespacedName{Namespace: t.Namespace, Name: t.Name}]; pod != nil {
		return pod, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), t.Name)
}

func (o *office) Patch(_ context.Context, t client.Target, p client.Patch, _ metav1.PatchOptions) (apiruntime.Object, error) {
	var change struct {
		Metadata struct{ UID types.UID }
		Status   struct{ Message string }
	}
	if err := json.Unmarshal(p.Data, &change); err != nil {
		return nil, err
	}
	if err := o.request("patch", fmt.Sprintf("%s/%s %s %q", t.Namespace, t.Name, change.Metadata.UID, change.Status.Message)); err != nil {
		return nil, err
	}
	pod := o.pods[types.NamespacedName{Namespace: t.Namespace, Name: t.Name}]
	if pod == nil || pod.UID != change.Metadata.UID {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), t.Name)
	}
	pod = pod.DeepCopy()
	pod.Status.Message = change.Status.Message
	pod = o.put(pod)
	if after := o.after; after != nil {
		o.after = nil
		after()
	}
	return pod, nil
}

func (o *office) Delete(_ context.Context, t client.Target, _ metav1.DeleteOptions) error {
	if err := o.request("delete", t.Name); err != nil {
		return err
	}
	delete(o.pods, types.NamespacedName{Namespace: t.Namespace, Name: t.Name})
	return nil
}

// expect compares what was requested until then, and forgets it.
func (o *office) expect(t *testing.T, until time.Duration, want ...string) {
	t.Helper()
	time.Sleep(time.Until(o.start.Add(until)))
	synctest.Wait()
	if !slices.Equal(o.lines, want) {
		t.Errorf("requested is\n\t%s\nnot\n\t%s", strings.Join(o.lines, "\n\t"), strings.Join(want, "\n\t"))
	}
	o.lines = nil
}

// letter returns a pod of the API.
func letter(namespace, name, uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
}

// said is a status that contains a message.
func said(message string) corev1.PodStatus { return corev1.PodStatus{Message: message} }

// leaving returns the pod after its deletion was requested.
func leaving(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	return pod
}

// TestWhenStatusesAreSent: settled ones at once, provisional ones after a while unless a settled one comes first, and
// what comes while one is sent after it, in its own time.
func TestWhenStatusesAreSent(t *testing.T) {
	withOffice(t, func(o *office) {
		web := o.put(letter("ns", "web", "1"))
		o.s.set(web, said("settled"), settled)
		o.expect(t, 100*time.Millisecond, `1 patch ns/web 1 "settled"`)
		o.s.set(web, said("provisional"), provisional)
		o.expect(t, 200*time.Millisecond, `120 patch ns/web 1 "provisional"`)
		o.s.set(web, said("provisional again"), provisional)
		time.Sleep(10 * time.Millisecond)
		o.s.set(web, said("settled after all"), settled)
		o.expect(t, 300*time.Millisecond, `211 patch ns/web 1 "settled after all"`)
		o.s.set(web, said("first"), settled)
		o.s.set(web, said("second"), provisional)
		o.expect(t, 400*time.Millisecond, `301 patch ns/web 1 "second"`)
		o.during = func() { o.s.set(web, said("meanwhile"), provisional) }
		o.s.set(web, said("now"), settled)
		o.expect(t, 500*time.Millisecond, `401 patch ns/web 1 "now"`, `421 patch ns/web 1 "meanwhile"`)
		// What was said before is sent once more if something else was said since then, and only then.
		o.s.set(web, said("now"), settled)
		o.expect(t, 600*time.Millisecond, `501 patch ns/web 1 "now"`)
		o.s.set(web, said("now"), settled)
		o.expect(t, 700*time.Millisecond)
		o.s.set(web, said(""), settled)
		o.expect(t, time.Hour, `701 patch ns/web 1 ""`)
	})
}

// TestOrderOfStatuses: those that are due earlier are sent first, and simultaneous ones in the order of their pods'
// namespaces, names and UIDs.
func TestOrderOfStatuses(t *testing.T) {
	withOffice(t, func(o *office) {
		var pods []*corev1.Pod
		for _, name := range []string{"b/a 1", "a/c 1", "a/b 2", "a/b 1", "a/a 3", "c/a 1"} {
			namespace, rest, _ := strings.Cut(name, "/")
			name, uid, _ := strings.Cut(rest, " ")
			pods = append(pods, o.put(letter(namespace, name, namespace+name+uid)))
		}
		o.during = func() { // while the first one is sent, the others become due
			for _, pod := range pods {
				o.s.set(pod, said("a"), settled)
			}
			time.Sleep(5 * time.Millisecond)
			o.s.set(letter("a", "early", "early"), said("b"), settled)
			time.Sleep(5 * time.Millisecond)
		}
		o.s.set(o.put(letter("z", "first", "z")), said("a"), settled)
		o.expect(t, time.Second, `1 patch z/first z "a"`, `11 patch a/a aa3 "a"`, `11 patch a/b ab1 "a"`, `11 patch a/b ab2 "a"`,
			`11 patch a/c ac1 "a"`, `11 patch b/a ba1 "a"`, `11 patch c/a ca1 "a"`, `11 patch a/early early "b"`)
	})
}

// TestEachStatusInItsTime: with many pods, each status is sent when it is due.
func TestEachStatusInItsTime(t *testing.T) {
	withOffice(t, func(o *office) {
		o.fails = 20
		var want []string
		for i := range 20 {
			name := fmt.Sprintf("%02d", i)
			o.s.set(o.put(letter("ns", name, name)), said("a"), settled)
			time.Sleep(30 * time.Millisecond)
			want = append(want, fmt.Sprintf(`%d patch ns/%s %s "a"`, 30*i+1, name, name))
		}
		o.expect(t, 900*time.Millisecond, want...)
		for i := range want {
			want[i] = fmt.Sprintf(`%d patch ns/%02d %02d "a"`, 30*i+1001, i, i)
		}
		o.expect(t, time.Hour, want...)
	})
}

// TestFailuresAreForgotten: after a success, the next failure is the first again.
func TestFailuresAreForgotten(t *testing.T) {
	withOffice(t, func(o *office) {
		web := o.put(letter("ns", "web", "1"))
		o.fails = 2
		o.s.set(web, said("a"), settled)
		o.expect(t, 5*time.Second, `1 patch ns/web 1 "a"`, `1001 patch ns/web 1 "a"`, `3001 patch ns/web 1 "a"`)
		o.s.set(web, said("b"), settled)
		o.expect(t, 6*time.Second, `5001 patch ns/web 1 "b"`)
		o.fails = 1
		o.s.set(web, said("c"), settled)
		o.expect(t, time.Hour, `6001 patch ns/web 1 "c"`, `7001 patch ns/web 1 "c"`)
	})
}

// TestWhatIsSeenOfAPod: what others write to a pod's status is put right at once, but not by what is older than the
// last answer, nor while the pod waits for another attempt, nor once it is gone.
func TestWhatIsSeenOfAPod(t *testing.T) {
	withOffice(t, func(o *office) {
		old := o.put(letter("ns", "web", "1"))
		other := func() *corev1.Pod {
			pod := o.pods[nameOf(old)].DeepCopy()
			pod.Status.Message = "other"
			return pod
		}
		o.s.observe(old) // of which nothing was said yet
		o.s.set(old, said("ours"), settled)
		o.expect(t, time.Second, `1 patch ns/web 1 "ours"`)
		o.s.observe(old)
		o.expect(t, 1500*time.Millisecond)
		o.s.observe(o.pods[nameOf(old)])
		o.expect(t, 2*time.Second)
		o.s.observe(o.put(other()))
		o.expect(t, 3*time.Second, `2001 patch ns/web 1 "ours"`)

		o.fails = 2
		o.s.observe(o.put(other()))
		time.Sleep(500 * time.Millisecond)
		o.s.observe(o.put(other()))
		o.expect(t, 10*time.Second, `3001 patch ns/web 1 "ours"`, `4001 patch ns/web 1 "ours"`, `6001 patch ns/web 1 "ours"`)

		o.s.set(old, said("more"), provisional)
		time.Sleep(5 * time.Millisecond)
		o.s.observe(o.put(other()))
		o.expect(t, 11*time.Second, `10020 patch ns/web 1 "more"`)

		gone := other()
		delete(o.pods, nameOf(old))
		o.s.set(old, said("even more"), settled)
		o.expect(t, 12*time.Second, `11001 patch ns/web 1 "even more"`)
		o.s.observe(o.put(gone))
		o.s.set(old, said("most"), settled)
		o.expect(t, time.Hour)
	})
}

// TestConflictsOfStatuses: a conflict is resolved with the newest state of the pod. If another pod has its name, nothing
// more is sent.
func TestConflictsOfStatuses(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile *corev1.Pod
		want      []string
	}{
		"the same pod": {letter("ns", "web", "1"), []string{`1 patch ns/web 1 "a"`, "1 get web", `1001 patch ns/web 1 "a"`}},
		"another pod":  {letter("ns", "web", "2"), []string{`1 patch ns/web 1 "a"`, "1 get web"}},
	} {
		t.Run(name, func(t *testing.T) {
			withOffice(t, func(o *office) {
				o.fails, o.err = 1, apierrors.NewConflict(corev1.Resource("pods"), "web", errors.New("stale"))
				o.during = func() { o.put(c.meanwhile) }
				web := o.put(letter("ns", "web", "1"))
				o.s.set(web, said("a"), settled)
				o.expect(t, time.Hour, c.want...)
			})
		})
	}
}

// TestWhenPodsAreDeleted: a pod is deleted when it has ended, its deletion was requested and its last status was sent.
func TestWhenPodsAreDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(o *office, web *corev1.Pod)
		want []string
	}{
		"it has not ended": {
			act:  func(o *office, web *corev1.Pod) { o.s.set(o.put(leaving(web)), said("b"), settled) },
			want: []string{`1001 patch ns/web 1 "b"`},
		},
		"nobody wants it": {
			act:  func(o *office, web *corev1.Pod) { o.s.finish(web, said("b")) },
			want: []string{`1001 patch ns/web 1 "b"`},
		},
		"both": {
			act:  func(o *office, web *corev1.Pod) { o.s.finish(o.put(leaving(web)), said("b")) },
			want: []string{`1001 patch ns/web 1 "b"`, "1001 delete web"},
		},
		"its status was sent before": {
			act:  func(o *office, web *corev1.Pod) { o.s.finish(o.put(leaving(web)), said("a")) },
			want: []string{"1001 delete web"},
		},
		"at last": {
			act: func(o *office, web *corev1.Pod) {
				o.s.finish(web, said("a"))
				time.Sleep(time.Second)
				o.s.finish(o.put(leaving(web)), said("a"))
			},
			want: []string{"2001 delete web"},
		},
		"it stays ended": {
			act: func(o *office, web *corev1.Pod) {
				o.s.finish(web, said("a"))
				o.s.set(o.put(leaving(web)), said("a"), settled)
			},
			want: []string{"1001 delete web"},
		},
		"its status cannot be sent": {
			act: func(o *office, web *corev1.Pod) {
				o.fails = 1
				o.s.finish(o.put(leaving(web)), said("b"))
			},
			want: []string{`1001 patch ns/web 1 "b"`, `2001 patch ns/web 1 "b"`, "2001 delete web"},
		},
		"it cannot be deleted, and others write to it": {
			act: func(o *office, web *corev1.Pod) {
				o.s.finish(web, said("a"))
				time.Sleep(time.Second)
				web = o.put(leaving(web))
				o.fails = 1
				o.s.finish(web, said("a"))
				time.Sleep(500 * time.Millisecond)
				web = web.DeepCopy()
				web.Status.Message = "other"
				o.s.observe(o.put(web))
			},
			want: []string{"2001 delete web", `3001 patch ns/web 1 "a"`, "3001 delete web"},
		},
		"its deletion is requested while its last status is sent": {
			act: func(o *office, web *corev1.Pod) {
				o.after = func() { o.s.observe(o.put(leaving(o.pods[nameOf(web)]))) }
				o.s.finish(web, said("b"))
			},
			want: []string{`1001 patch ns/web 1 "b"`, "1001 delete web"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			withOffice(t, func(o *office) {
				o.s.set(o.put(letter("ns", "web", "1")), said("a"), settled)
				o.expect(t, time.Second, `1 patch ns/web 1 "a"`)
				web := o.pods[types.NamespacedName{Namespace: "ns", Name: "web"}]
				c.act(o, web)
				o.expect(t, time.Hour, c.want...)
				if o.pods[nameOf(web)] == nil { // a late word of it changes nothing
					web = leaving(web)
					web.ResourceVersion, web.Status.Message = "99", "other"
					o.s.observe(web)
					o.s.finish(web, said("more"))
					o.expect(t, 2*time.Hour)
				}
			})
		})
	}
}

// TestStatusesOfStaticPods: the status of a static pod is sent to its mirror when there is one, anew to each, and
// nobody's failures are those of the next.
func TestStatusesOfStaticPods(t *testing.T) {
	withOffice(t, func(o *office) {
		pod := letter("ns", "web", "file")
		pod.Annotations = map[string]string{origin.Annotation: "file"}
		mirror := func(uid string) *corev1.Pod {
			m := letter("ns", "web", uid)
			m.Annotations = map[string]string{origin.Annotation: "file", origin.MirrorAnnotation: "file"}
			return o.put(m)
		}
		o.s.set(pod, said("a"), settled)
		o.expect(t, time.Second)
		o.s.mirror(mirror("m1"), false)
		o.expect(t, 2*time.Second, `1001 patch ns/web m1 "a"`)
		o.s.mirror(o.pods[nameOf(pod)], false) // as it is now
		o.expect(t, 3*time.Second)

		o.s.mirror(mirror("m2"), false) // in place of the first
		o.expect(t, 4*time.Second, `3001 patch ns/web m2 "a"`)
		o.s.mirror(o.pods[nameOf(pod)], true)
		o.s.set(pod, said("b"), settled)
		o.expect(t, 5*time.Second)

		o.fails = 3
		o.s.mirror(mirror("m3"), false)
		o.expect(t, 7*time.Second, `5001 patch ns/web m3 "b"`, `6001 patch ns/web m3 "b"`)
		o.s.mirror(mirror("m4"), false)
		o.expect(t, 9*time.Second, `7001 patch ns/web m4 "b"`, `8001 patch ns/web m4 "b"`)
		o.s.set(pod, said("c"), settled)
		o.expect(t, 10*time.Second, `9001 patch ns/web m4 "c"`)

		o.s.set(pod, said(""), settled)
		o.expect(t, 11*time.Second, `10001 patch ns/web m4 ""`)
		changed := o.pods[nameOf(pod)].DeepCopy()
		changed.Status.Message = "other"
		o.s.mirror(o.put(changed), false)
		o.s.set(pod, said(""), settled)
		o.expect(t, 12*time.Second) // what others write to a mirror stays until the next status
		o.s.set(pod, said("c"), provisional)
		o.s.set(pod, said(""), settled)
		o.expect(t, 13*time.Second, `12001 patch ns/web m4 ""`)

		itself := pod.DeepCopy()
		itself.ResourceVersion = "1000"
		o.s.observe(itself) // which is not its mirror

		delete(o.pods, nameOf(pod)) // of which nobody has told yet
		o.s.set(pod, said("d"), settled)
		o.expect(t, 14*time.Second, `13001 patch ns/web m4 "d"`)
		o.s.set(pod, said("e"), settled)
		o.expect(t, 15*time.Second)
		o.s.mirror(mirror("m5"), false)
		o.expect(t, time.Hour, `15001 patch ns/web m5 "e"`)
	})
}
