package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/clienttest"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
)

// A client without faults is the client that it is made of.
func TestClient(t *testing.T) {
	clienttest.TestClient(t, func(t *testing.T) client.Client {
		return faults.New(controllerstest.Start(t, controllerstest.Options{}).Others, faults.Options{})
	})
}

// counting answers every request and counts those that reach it.
type counting struct{ count int }

func (c *counting) answer() (runtime.Object, error) { c.count++; return &corev1.Pod{}, nil }

func (c *counting) Get(context.Context, client.Target) (runtime.Object, error) { return c.answer() }

func (c *counting) List(context.Context, client.Target, metav1.ListOptions) (runtime.Object, error) {
	return c.answer()
}

func (c *counting) Create(context.Context, client.Target, runtime.Object, metav1.CreateOptions) (runtime.Object, error) {
	return c.answer()
}

func (c *counting) Update(context.Context, client.Target, runtime.Object, metav1.UpdateOptions) (runtime.Object, error) {
	return c.answer()
}

func (c *counting) Patch(context.Context, client.Target, client.Patch, metav1.PatchOptions) (runtime.Object, error) {
	return c.answer()
}

func (c *counting) Delete(context.Context, client.Target, metav1.DeleteOptions) error {
	_, err := c.answer()
	return err
}

func pods(namespace, name, subresource string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: namespace, Name: name, Subresource: subresource}
}

// each makes one request of every kind and tells which failed, by their verbs' first letters.
func each(c client.Client) string {
	ctx, failed := context.Background(), ""
	note := func(letter string, err error) {
		if err != nil {
			failed += letter
		}
	}
	_, err := c.Get(ctx, pods("a", "one", ""))
	note("g", err)
	_, err = c.List(ctx, pods("a", "", ""), metav1.ListOptions{})
	note("l", err)
	_, err = c.Create(ctx, pods("a", "", ""), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	note("c", err)
	_, err = c.Update(ctx, pods("b", "two", "status"), &corev1.Pod{}, metav1.UpdateOptions{})
	note("u", err)
	_, err = c.Patch(ctx, pods("a", "one", ""), client.Patch{Type: types.MergePatchType, Data: []byte("{}")}, metav1.PatchOptions{})
	note("p", err)
	note("d", c.Delete(ctx, pods("b", "two", ""), metav1.DeleteOptions{}))
	return failed
}

func TestMatch(t *testing.T) {
	for want, f := range map[string]faults.Fault{
		"glcupd": {Times: -1},
		"g":      {},
		"c":      {Skip: 2},
		"cu":     {Skip: 2, Times: 2},
		"gcp":    {Name: "one", Times: -1},
		"ud":     {Namespace: "b", Times: -1},
		"u":      {Resource: "pods/status", Times: -1},
		"glcpd":  {Resource: "pods", Times: -1},
		"p":      {Verb: faults.Patch, Resource: "pods", Namespace: "a", Name: "one"},
		"":       {Verb: faults.Patch, Name: "two"},
	} {
		f.Err = errors.New("down")
		inner := &counting{}
		c := faults.New(inner, faults.Options{})
		c.Inject(f)
		if got := each(c); got != want || inner.count != 6-len(want) {
			t.Errorf("%+v: %q failed, want %q; %d went through", f, got, want, inner.count)
		}
	}
}

func TestRecord(t *testing.T) {
	inner := &counting{}
	var before []string
	c := faults.New(inner, faults.Options{Before: func(r faults.Request) error {
		before = append(before, r.Verb)
		if r.Verb == faults.Delete {
			return errors.New("no")
		}
		return nil
	}})
	if got := each(c); got != "d" || inner.count != 5 || fmt.Sprint(before) != "[get list create update patch delete]" {
		t.Errorf("%q failed, %d went through; before: %v", got, inner.count, before)
	}
	var writes []string
	for _, r := range c.Writes() {
		writes = append(writes, r.String())
	}
	if got := strings.Join(writes, ", "); got != "create pods a/one, update pods/status b/two, patch pods a/one, delete pods b/two" {
		t.Error(got)
	}
	if all := c.Requests(); len(all) != 6 || string(all[4].Patch) != "{}" || all[2].Object == nil {
		t.Errorf("%v", all)
	}
	if c.Reset(); len(c.Requests()) != 0 {
		t.Error("requests outlive their reset")
	}
}

// TestLost: what is lost is carried out. Faults befall requests one at a time and can be healed.
func TestLost(t *testing.T) {
	inner, other := &counting{}, errors.New("other")
	c := faults.New(inner, faults.Options{})
	c.Inject(faults.Fault{Lost: true})
	c.Inject(faults.Fault{Lost: true, Err: other})
	c.Inject(faults.Fault{Err: other})
	for n, want := range []struct {
		err   error
		count int
	}{{faults.ErrLost, 1}, {other, 2}, {other, 2}, {nil, 3}} {
		obj, err := c.Get(t.Context(), pods("a", "one", ""))
		if !errors.Is(err, want.err) || (obj == nil) != (want.err != nil) || inner.count != want.count {
			t.Errorf("request %d: %v, %v, %d carried out", n, obj, err, inner.count)
		}
	}
	c.Inject(faults.Fault{Err: other, Times: -1})
	c.Heal()
	if failed := each(c); failed != "" {
		t.Errorf("%q failed after all was healed", failed)
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &counting{}
		c := faults.New(inner, faults.Options{})
		c.Inject(faults.Fault{Delay: time.Minute, Times: 2})
		began := time.Now()
		if _, err := c.Get(t.Context(), pods("a", "one", "")); err != nil || time.Since(began) != time.Minute || inner.count != 1 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Get(ctx, pods("a", "one", "")); !errors.Is(err, context.DeadlineExceeded) || inner.count != 1 {
			t.Errorf("a request whose time is over: %v", err)
		}
	})
}
