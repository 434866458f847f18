// Package storagetest is the conformance suite of package storage, for the author of a backend:
// it holds a storage.Store to every sentence of the contract.
//
//	func TestContract(t *testing.T) {
//		storagetest.Run(t, storagetest.Backend{
//			Open: func(t testing.TB) storage.Store {
//				s, err := mine.Open(t.TempDir(), mine.Options{History: 500})
//				if err != nil {
//					t.Fatal(err)
//				}
//				t.Cleanup(func() { s.Close() })
//				return s
//			},
//			Forget: storagetest.ForgetByWriting(500),
//		})
//	}
//
// What a backend promises beyond the contract (durability, how much history it keeps) is its own
// to test. The suite needs no other packages, takes about a second on a backend in memory, and
// takes its randomness from fixed seeds, which a failure names.
package storagetest
