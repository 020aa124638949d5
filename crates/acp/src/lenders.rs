//! The clients that stand in for this machine in one session: who of them is asked.

use engine::Lent;

use crate::relay;

/// Clients of a session; the one whose turn it is comes first.
#[derive(Debug, Default)]
pub(crate) struct Lenders {
    clients: Vec<Lent>,
    /// Whose prompt waits for the end of another's turn.
    next: Option<u64>,
    in_turn: bool,
}

impl Lenders {
    /// A client is there. One that only looks on comes after those that are there already.
    pub(crate) fn add(&mut self, client: Lent) {
        let (number, at_work) = (client.client, client.at_work);
        self.clients.retain(|known| !known.to.is_closed());
        match self.clients.iter_mut().find(|it| it.client == number) {
            Some(known) => *known = client,
            None => self.clients.push(client),
        }
        match (at_work, self.in_turn) {
            (true, false) => self.put_first(number),
            (true, true) => self.next = Some(number),
            (false, _) => {}
        }
    }

    pub(crate) fn begin_turn(&mut self) {
        self.in_turn = true;
        if let Some(number) = self.next.take() {
            self.put_first(number);
        }
    }

    pub(crate) fn end_turn(&mut self) {
        self.in_turn = false;
    }

    pub(crate) fn is_in_turn(&self) -> bool {
        self.in_turn
    }

    /// The first that is there and takes requests of this method.
    pub(crate) fn taking(&self, method: &str) -> Option<&Lent> {
        self.clients
            .iter()
            .find(|client| relay::takes(client, method))
    }

    /// Everybody who is there.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Lent> {
        self.clients.iter().filter(|client| !client.to.is_closed())
    }

    fn put_first(&mut self, number: u64) {
        // Stable: the others keep their order.
        self.clients.sort_by_key(|client| client.client != number);
    }
}

#[cfg(test)]
mod tests {
    use engine::{Backlog, NativeRequest};
    use tokio::sync::mpsc;

    use super::*;

    fn client(number: u64, at_work: bool) -> (Lent, mpsc::Receiver<NativeRequest>) {
        let (to, requests) = mpsc::channel(1);
        let instead = vec!["fs/read_text_file"];
        let lent = Lent {
            to,
            backlog: Backlog::default(),
            instead,
            client: number,
            at_work,
        };
        (lent, requests)
    }

    fn asked(lenders: &Lenders) -> Option<u64> {
        lenders
            .taking("fs/read_text_file")
            .map(|client| client.client)
    }

    #[test]
    fn whoever_is_at_work_is_asked_and_after_them_whoever_is_left() {
        let mut lenders = Lenders::default();
        let (first, of_first) = client(1, true);
        lenders.add(first);
        lenders.begin_turn();
        let (onlooker, of_onlooker) = client(2, false);
        lenders.add(onlooker);
        assert_eq!(asked(&lenders), Some(1));
        // Its prompt waits for the end of the turn, and so does it.
        let (third, _of_third) = client(3, true);
        lenders.add(third);
        assert_eq!(asked(&lenders), Some(1));
        lenders.end_turn();
        lenders.begin_turn();
        assert_eq!(asked(&lenders), Some(3));
        drop((of_first, of_onlooker));
        assert_eq!(asked(&lenders), Some(3));
        assert_eq!(lenders.present().count(), 1);
    }

    #[test]
    fn one_that_left_takes_nothing_from_the_others() {
        let mut lenders = Lenders::default();
        let (first, _of_first) = client(1, true);
        let (second, of_second) = client(2, true);
        lenders.add(first);
        lenders.add(second);
        assert_eq!(asked(&lenders), Some(2));
        drop(of_second);
        assert_eq!(asked(&lenders), Some(1));
    }
}
