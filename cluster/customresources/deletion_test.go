package customresources_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestDeletedWhileWritten: a definition that is deleted while clients write its objects goes with all that were acknowledged; nothing
// stays in the store, and a definition of the same name begins without objects.
func TestDeletedWhileWritten(t *testing.T) {
	store := memory.New(memory.Options{})
	a := clients(t, start(t, cluster.Options{Store: store}).Config())
	for round := range 5 {
		a.define(backup())
		a.established("backups.example.com")
		if l, err := a.backups("default").List(t.Context(), metav1.ListOptions{}); err != nil || len(l.Items) > 0 {
			t.Fatalf("round %d begins with %v, %v", round, l, err)
		}
		enough := make(chan struct{})
		var once sync.Once
		var deleting atomic.Bool
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for n := 0; ; n++ {
					obj := object(fmt.Sprintf("b-%d-%d", w, n))
					made, err := a.backups("default").Create(context.Background(), obj, metav1.CreateOptions{})
					if err == nil && n%2 == 0 { // some go before the definition does
						err = a.backups("default").Delete(context.Background(), made.GetName(), metav1.DeleteOptions{})
					}
					switch {
					case deleting.Load() && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)):
						return
					case err != nil:
						t.Errorf("round %d, %s: %v", round, obj.GetName(), err)
						return
					}
					if n == 10*round {
						once.Do(func() { close(enough) })
					}
				}
			})
		}
		<-enough
		deleting.Store(true)
		a.delete(a.any.Resource(definitions), "backups.example.com")
		writers.Wait()
		a.gone(a.any.Resource(definitions), "backups.example.com")
		left, err := store.List(t.Context(), "/registry/example.com/backups/", storage.ListOptions{})
		if err != nil || len(left.Records) > 0 {
			t.Fatalf("round %d leaves %d records, %v", round, len(left.Records), err)
		}
	}
}

// TestDeletedDuringCreate: a definition waits for a create that came before its deletion, so that its object goes too; and a
// create that comes after it is refused.
func TestDeletedDuringCreate(t *testing.T) {
	arrived := make(chan struct{})
	hold, proceed := context.WithCancel(context.Background())
	slow := admission.ValidatorFunc("Slow", func(_ context.Context, r *admission.Request) error {
		if r.Name == "slow" {
			close(arrived)
			<-hold.Done()
		}
		return nil
	}, admission.Create)
	store := memory.New(memory.Options{})
	a := clients(t, start(t, cluster.Options{Store: store, Admission: append(cluster.DefaultAdmission(), cluster.Plugins(slow)...)}).Config())
	t.Cleanup(proceed) // before the cluster ends
	a.define(backup())
	a.established("backups.example.com")
	created := make(chan error, 1)
	go func() {
		_, err := a.backups("default").Create(context.Background(), object("slow"), metav1.CreateOptions{})
		created <- err
	}()
	<-arrived
	a.delete(a.any.Resource(definitions), "backups.example.com")
	eventually(t, func() error {
		_, err := a.backups("default").Create(context.Background(), object("late"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		const want = `backups.example.com "late" is forbidden: create not allowed while custom resource definition is terminating`
		if fmt.Sprint(err) != want {
			return fmt.Errorf("a late create: %w, want %s", err, want)
		}
		return nil
	})
	proceed()
	if err := <-created; err != nil {
		t.Errorf("the create that came first: %v", err)
	}
	a.gone(a.any.Resource(definitions), "backups.example.com")
	if left, err := store.List(t.Context(), "/registry/example.com/backups/", storage.ListOptions{}); err != nil || len(left.Records) > 0 {
		t.Fatalf("%d records are left, %v", len(left.Records), err)
	}
}

// TestDiscoveryWhileDeleted: while a definition is being deleted, discovery lists no verbs that write its objects, in either form,
// but still those that write their subresources, as upstream's.
func TestDiscoveryWhileDeleted(t *testing.T) {
	config := start(t, cluster.Options{}).Config()
	a, raw := clients(t, config), rawClient(t, config)
	verbs := func() (string, error) {
		list := &metav1.APIResourceList{}
		text, err := raw.Get().AbsPath("/apis/example.com/v1").Do(t.Context()).Raw()
		if err == nil {
			err = json.Unmarshal(text, list)
		}
		if err != nil {
			return "", err
		}
		groups := &apidiscovery.APIGroupDiscoveryList{}
		text, err = raw.Get().AbsPath("/apis").SetHeader("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").Do(t.Context()).Raw()
		if err == nil {
			err = json.Unmarshal(text, groups)
		}
		if err != nil {
			return "", err
		}
		var all []string
		for _, r := range list.APIResources {
			all = append(all, r.Name+": "+strings.Join(r.Verbs, " "))
		}
		for _, g := range groups.Items {
			if g.Name == "example.com" {
				r := g.Versions[0].Resources[0]
				all = append(all, "aggregated: "+strings.Join(r.Verbs, " "), r.Subresources[0].Subresource+": "+strings.Join(r.Subresources[0].Verbs, " "))
			}
		}
		return strings.Join(all, "\n"), nil
	}
	want := func(own string) string {
		return "backups: " + own + "\nbackups/status: get patch update\naggregated: " + own + "\nstatus: get patch update"
	}
	a.define(backup())
	a.established("backups.example.com")
	a.create(a.backups("default"), object("held", func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/hold"}) }))
	if got, err := verbs(); err != nil || got != want("create delete deletecollection get list patch update watch") {
		t.Fatalf("%v, %s", err, got)
	}
	a.delete(a.any.Resource(definitions), "backups.example.com")
	eventually(t, func() error {
		got, err := verbs()
		if err == nil && got != want("delete deletecollection get list watch") {
			err = fmt.Errorf("discovery lists\n%s", got)
		}
		return err
	})
}
